"""Branch and bound on the phases of ReLUs, for properties with many varying inputs."""
