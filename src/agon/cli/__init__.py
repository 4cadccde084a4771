"""The command line: parse, settings, one call each."""
