"""From files and modules to a Network."""
