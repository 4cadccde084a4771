"""Sampling: token ids in, token ids and their logprobs out, with the adapter named by each request."""
