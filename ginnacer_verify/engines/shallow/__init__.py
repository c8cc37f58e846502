"""The engine for networks with one hidden layer: propagation of bounds, a dual bound, and decided ReLUs."""
