"""Which neurons are abstracted together: strategies, first fit and local search."""
