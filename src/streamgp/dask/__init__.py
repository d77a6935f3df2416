"""The same numbers on a Dask cluster: statistics add up, so a cluster is a sum.

Inducing points come from a sample of some partitions; then every partition is one stateless task that returns its
statistics, and these are summed as a tree, in one pass. A worker that dies costs the tasks it held, nothing else: the
learner that tasks work with is part of the graph, and no task keeps anything. The only package that knows Dask.
"""

from .cluster import client_or_local, local_cluster
from .learning import begin, learn_streams, predict, update
from .partitions import is_lazy

__all__ = ["begin", "client_or_local", "is_lazy", "learn_streams", "local_cluster", "predict", "update"]
