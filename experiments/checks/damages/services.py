"""Damage to checkpoints, Dask, data sets and the protocols of evaluation."""

from .damage import Damage

DAMAGES = [
    Damage(
        "8 self-training moves nothing",
        "src/streamgp/evaluation.py",
        "else mean)",
        "else 1.01 * mean)",
        "test_self_training",
    ),
    Damage(
        "checkpoint",
        "src/streamgp/checkpoint.py",
        "value.dtype.kind not in",
        "value.dtype.kind in",
        "never_having_stopped",
    ),
    Damage(
        "cluster: cache",
        "src/streamgp/methods/pivot_state.py",
        "recent=Recent(),",
        "recent=self.recent,",
        "not_those_of_before",
    ),
    Damage(
        "cluster: names",
        "src/streamgp/dask/partitions.py",
        "y = y[list(self.targets)]",
        "pass",
        "targets_are_matched",
    ),
    Damage(
        "sample: streams",
        "src/streamgp/dask/learning.py",
        "replace(start.sample.cleared(), seed",
        "replace(start.sample, seed",
        "bring_their_own",
    ),
    Damage(
        "payload",
        "src/streamgp/datasets.py",
        "acceleration, payload) + friction",
        "acceleration) + friction",
        "carries_the_payload",
    ),
    Damage(
        "own kernels",
        "src/streamgp/checkpoint.py",
        "    _CLASSES[cls.__name__] = cls\n",
        "",
        "ones_own_is_held",
    ),
]
