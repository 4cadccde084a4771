"""Reward terms: small pure functions."""
