"""Engines on graphs."""
