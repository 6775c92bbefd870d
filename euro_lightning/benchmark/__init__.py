"""This machine, our training step, and transformers' beside it."""
