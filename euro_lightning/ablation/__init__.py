"""Ablations: what to try, trying it, and what it says."""
