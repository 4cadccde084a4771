"""Policy-gradient learning: advantages, packing, chunked logprobs, losses, the optimiser step."""
