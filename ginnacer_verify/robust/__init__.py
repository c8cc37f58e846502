"""Robustness of classifiers: of one input, its radius, and certified accuracy of whole data sets."""
