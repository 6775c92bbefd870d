"""Experiment platform for people who pretrain text encoders."""

__version__ = "0.1.0"
