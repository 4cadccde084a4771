"""The frozen base, the pair of adapters on it, and their checkpoints."""
