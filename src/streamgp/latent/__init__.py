"""Learning under a likelihood other than the normal distribution: a latent function for each column of labels."""

from .learner import LatentLearner, begin

__all__ = ["LatentLearner", "begin"]
