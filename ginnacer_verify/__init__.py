"""ginnacer-verify: a neural network verifier that abstracts first.

The abstraction is that of Edoardo Manino, Iury Bessa and Lucas C. Cordeiro, "Towards Global Neural Network
Abstractions with Locally-Exact Reconstruction", arXiv 2210.12054. "Paper" in a docstring means this one; its
definitions are named by their titles, because their numbers differ between versions.
"""

from ginnacer_verify.version import __version__ as __version__
