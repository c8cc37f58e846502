"""ginnacer-check: reads a network, a property and a certificate by itself and says whether the certificate proves it.

It shares no code with ginnacer-verify, or with any verifier, and needs numpy and onnx only. The order to read it in:

    formula.py   the property: VNN-LIB 1.0 in exact rationals
    network.py   the network: ONNX as sums of linear maps, and ReLUs
    maps.py      the linear maps
    bounds.py    what is true of a network on a region: intervals and back-substitution, with rounding charged
    proof.py     the certificate: a stream of records
    check.py     the argument: regions that cover everything, each without an unsafe input
    __main__.py  the command
"""
