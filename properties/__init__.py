"""Properties of networks, and VNN-LIB, the text that they are written in."""
