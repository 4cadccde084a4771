"""Runs side by side: one table, paired tests, what every answer costs. Read `records.py` first. Loads no torch."""
