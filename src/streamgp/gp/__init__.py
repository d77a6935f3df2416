"""The mathematics: normal equations, posteriors, feature maps."""
