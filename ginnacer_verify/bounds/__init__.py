"""Bounds of values: intervals, back-substitution and ascent on graphs; the same on chains."""
