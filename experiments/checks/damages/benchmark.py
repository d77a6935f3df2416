"""Damage to the benchmark against other libraries."""

from .damage import Damage

DAMAGES = [
    Damage(
        "bench: noise",
        "experiments/peers/exact.py",
        "alpha=given.noise, optimizer",
        "alpha=2 * given.noise, optimizer",
        "exact_peers",
    ),
    Damage(
        "bench: order",
        "experiments/peers/protocol.py",
        "            mean, std = model.predict(now)\n            model.learn(now, y[part])",
        "            model.learn(now, y[part])\n            mean, std = model.predict(now)",
        "before_it_is_learned",
    ),
    Damage(
        "bench: contended",
        "experiments/common.py",
        "if use.others < CONTENDED or",
        "if True or",
        "beside_other_work",
    ),
]
