"""The version, alone in a file so that the command line can print it without importing numpy."""

__version__ = "0.2.0"
