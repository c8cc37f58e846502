"""The tight form: as many ReLUs per layer as in the paper, exact at the centroid, far narrower elsewhere."""
