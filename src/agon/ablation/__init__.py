"""Several training cells planned, run side by side and compared."""
