"""Judging encoders on what they are used for."""
