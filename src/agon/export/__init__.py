"""What a run has trained, written for programs that know nothing of agon.

It stands beside `ablation` and `serve`: it puts a run's checkpoint, its base, its prompts and its measurements together, which no
stage below may, and nothing is built on it.
"""
