"""The peers that people would pick instead, on the same streams: `streamgp bench`."""
