"""The native engine that halves boxes, for few varying inputs."""
