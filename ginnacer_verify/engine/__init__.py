"""The native engine: branch and bound on input boxes, every node a local abstraction centred in its own box."""
