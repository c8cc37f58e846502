"""Certificates: proofs that `ginnacer-check`, a program that shares no code with the engines, accepts.

Engines decide; then their verdict is proved once more, in the terms of the checker: with its reading of the network,
its bounds, and multipliers that are found here. What it does not read or what time does not allow has no certificate.
"""
