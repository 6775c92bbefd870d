"""The encoder: plain PyTorch over packed tokens, no Lightning."""
