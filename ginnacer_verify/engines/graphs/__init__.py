"""The native engine that decides phases of ReLUs on any graph, for many varying inputs."""
