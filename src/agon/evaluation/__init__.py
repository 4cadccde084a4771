"""A protocol measured on a split."""
