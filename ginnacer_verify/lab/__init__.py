"""The figures and tables of the paper, and comparisons that it could not make: one file per experiment."""
