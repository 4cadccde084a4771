"""Intervals, tests and estimators; free of torch."""
