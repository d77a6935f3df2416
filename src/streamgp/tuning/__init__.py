"""Hyperparameters: where they start, when and how they are tuned, and on what."""
