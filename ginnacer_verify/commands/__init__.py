"""One file per command of `ginnacer`: its arguments, and what it prints."""
