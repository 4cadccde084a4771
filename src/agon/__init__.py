"""Train small reasoning models in pairs: two LoRA adapters of one frozen base, one drafts, the other challenges.

Paper: Agon, arXiv:2607.07690.
"""

__version__ = "0.1.0"
