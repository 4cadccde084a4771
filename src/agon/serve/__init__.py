"""The OpenAI-compatible server of a pair, or of any two endpoints."""
