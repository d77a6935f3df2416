"""StreamingGPSampler: an Optuna sampler whose suggestions cost the same after thousands of trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState
from scipy.optimize import minimize

from ..answers import SampledFunction
from ..errors import ParameterError
from ..locking import writing
from ..regressor import StreamingGPRegressor

# Where a draw is looked at before the best of these places is improved: everywhere, and about the best trials.
ANYWHERE, NEAR, BEST, REACH = 1000, 50, 10, 0.1
# Of the differences by which it is improved: about eps^⅓ of the unit cube.
STEP = 1e-5


class StreamingGPSampler(BaseSampler):
    """Thompson sampling: each trial maximises one function drawn from the posterior of all finished trials.

    Trials that run at the same time maximise different draws, so that they need no knowledge of each other. One study
    to a sampler; failed and pruned trials are not learned.

    Parameters
    ----------
    n_startup_trials : int
        Random trials that come first.
    seed : int
        Seeds every draw.
    rank : int
        Inducing points: what a suggestion costs depends on these and not on the number of trials.

    Examples
    --------
    >>> import optuna
    >>> from streamgp.adapters.optuna import StreamingGPSampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=StreamingGPSampler(seed=0))
    >>> study.optimize(lambda trial: trial.suggest_float("x", -3, 3) ** 2, n_trials=25)
    >>> abs(study.best_params["x"]) < 0.1
    True
    """

    def __init__(self, n_startup_trials: int = 10, seed: int = 0, rank: int = 300) -> None:
        self.n_startup_trials, self.seed, self.rank = n_startup_trials, seed, rank
        self._random, self._space = RandomSampler(seed=seed), IntersectionSearchSpace()
        self._known: dict[str, BaseDistribution] = {}
        self._learned: set[int] = set()
        self._gp: StreamingGPRegressor | None = None

    def reseed_rng(self) -> None:
        """Seed anew, as Optuna asks of the copies that its processes work with."""
        self._random.reseed_rng()
        self.seed = int(np.random.default_rng().integers(2**31))

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that all finished trials have, of more than one value."""
        space: dict[str, BaseDistribution] = self._space.calculate(study)
        return {name: kind for name, kind in space.items() if not kind.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return values for the parameters of a trial; none while there are few trials."""
        if len(study.directions) > 1:
            raise ParameterError(
                f"StreamingGPSampler has one objective, the study {len(study.directions)}; use NSGAIISampler"
            )
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(done) < self.n_startup_trials or not search_space:
            return {}
        with writing(self):  # trials that run in threads wait for each other to learn, not to search
            if search_space != self._known:
                self._known, self._learned, self._gp = dict(search_space), set(), None
            best = self._learn(done, 1.0 if study.direction == StudyDirection.MAXIMIZE else -1.0)
            assert self._gp is not None
            rng = np.random.default_rng([self.seed, trial.number])
            draw = self._gp.sample_function(int(rng.integers(2**31)))
        return _values(search_space, _highest(draw, best, rng))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a random value for a parameter that some trials do not have."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def _learn(self, done: Sequence[FrozenTrial], sign: float) -> np.ndarray:
        """Learn the trials that are new; return the places of the best, in the unit cube."""
        usable = [t for t in done if t.value is not None and np.isfinite(t.value)]
        new = [t for t in usable if t.number not in self._learned]
        if self._gp is None:
            # An objective is a function of its own: an optimum that surprises is no outlier, and nothing is forgotten.
            self._gp = StreamingGPRegressor(
                "matern52",
                rank=self.rank,
                members=("gp",),
                guard=None,
                tune="continuous",
                forgetting=1.0,
                random_state=self.seed,
            )
        if new:
            self._gp.partial_fit(
                np.stack([_place(self._known, t.params) for t in new]), [sign * float(t.value) for t in new]
            )
            self._learned |= {t.number for t in new}
        best = sorted(usable, key=lambda t: -sign * float(t.value))[:BEST]
        return np.stack([_place(self._known, t.params) for t in best])


def _highest(draw: SampledFunction, best: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return where a drawn function is largest in the unit cube, (d,); `best` (k, d) are places to look about."""
    d = best.shape[1]
    near = np.repeat(best, NEAR, axis=0)
    near = near + REACH * rng.random((len(near), 1)) * rng.standard_normal(near.shape)
    places = np.clip(np.concatenate([rng.random((ANYWHERE, d)), near, best]), 0.0, 1.0)
    start, step = places[int(np.argmax(draw(places)))], STEP * np.eye(d)

    def down(x: np.ndarray) -> tuple[float, np.ndarray]:
        f = draw(np.concatenate([x[None, :], x + step, x - step]))
        return -float(f[0]), (f[1 + d :] - f[1 : 1 + d]) / (2 * STEP)

    return np.asarray(minimize(down, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * d).x)


def _ends(kind: FloatDistribution | IntDistribution) -> tuple[float, float]:
    """Return the ends of a range; where only steps are allowed, half a step wider, so that each has the same share."""
    half = 0.5 * kind.step if kind.step else 0.0
    low, high = float(kind.low) - half, float(kind.high) + half
    return (float(np.log(low)), float(np.log(high))) if kind.log else (low, high)


def _place(space: dict[str, BaseDistribution], params: dict[str, Any]) -> np.ndarray:
    """Return the values of parameters as a place in the unit cube, (d,): a category has a coordinate of its own."""
    out: list[float] = []
    for name, kind in space.items():
        if isinstance(kind, CategoricalDistribution):
            at = kind.to_internal_repr(params[name])
            out.extend(1.0 if j == at else 0.0 for j in range(len(kind.choices)))
        else:
            assert isinstance(kind, FloatDistribution | IntDistribution)
            low, high = _ends(kind)
            out.append(
                ((float(np.log(params[name])) if kind.log else float(params[name])) - low) / (high - low)
            )
    return np.array(out)


def _values(space: dict[str, BaseDistribution], x: np.ndarray) -> dict[str, Any]:
    """Return the values of parameters at a place in the unit cube, x (d,): the nearest that are allowed."""
    out, at = {}, 0
    for name, kind in space.items():
        if isinstance(kind, CategoricalDistribution):
            n = len(kind.choices)
            out[name], at = kind.choices[int(np.argmax(x[at : at + n]))], at + n
            continue
        assert isinstance(kind, FloatDistribution | IntDistribution)
        low, high = _ends(kind)
        value = low + float(x[at]) * (high - low)
        value, at = float(np.exp(value)) if kind.log else value, at + 1
        if kind.step:
            value = kind.low + kind.step * round((value - kind.low) / kind.step)
        value = min(max(value, kind.low), kind.high)
        out[name] = int(value) if isinstance(kind, IntDistribution) else float(value)
    return out
