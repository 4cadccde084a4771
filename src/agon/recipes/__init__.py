"""Presets: recipes that `agon train NAME` finds without a path."""
