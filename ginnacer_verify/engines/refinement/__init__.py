"""The loop: abstract, ask, replay, refine."""
