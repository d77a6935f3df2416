"""Speed of streamgp: batches, scale, GPUs, clusters, files."""
