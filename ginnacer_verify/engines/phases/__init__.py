"""The native engine that decides phases of ReLUs, for many varying inputs."""
