"""Every constructor argument, declared once: its default, the values it accepts, and the methods that use it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from ._arrays import Array, asarray_like, is_foreign, to_host
from .errors import KernelError, ParameterError
from .kernels import FAMILIES, as_kernel
from .likelihoods import LIKELIHOODS
from .means import is_mean_function
from .transforms import NAMES as TRANSFORMS

METHODS = ("pivoted", "srmf", "brmf", "nrmf", "rgp")
# Methods on inducing points: their statistics can be merged, subtracted and forgotten.
MERGEABLE = ("pivoted", "rgp")
# The value of arguments that are chosen from the stream.
AUTO = "auto"
SPECTRAL = ("srmf", "brmf")
MODES = ("doubling", "initial", "hybrid", "continuous", "none")
OBJECTIVES = ("evidence", "loo", "training_error")
# The likelihood of everything that is not said to be of another.
GAUSSIAN = "gaussian"
# Members of the panel; the Gaussian process is always one of them.
MEMBERS = ("gp", "neighbours", "ridge", "ridge_recent", "level")
# The mode of a stream that only keeps a sample: it is tuned when it is merged into another. Not for users.
LATER = "later"
# A batch that is far longer than `memory_rows` leaves so much of the past: nothing, in numbers whose logarithm exists.
LEAST_RATE = 1e-12


def is_real(value: object) -> bool:
    """Return whether a value is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_probability(name: str, value: Any) -> None:
    """Raise ParameterError where a value is not between 0 and 1 to the precision of numbers."""
    if not (is_real(value) and value > 0 and 0.5 + 0.5 * value < 1):
        raise ParameterError(f"{name}={value!r} must lie between 0 and 1, such as 0.9")


def _whole(low: int) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, Integral) and not isinstance(v, bool) and int(v) >= low


def _one_of(*choices: str) -> Callable[[Any], bool]:
    return lambda v: isinstance(v, str) and v in choices


def _between(low: float, high: float) -> Callable[[Any], bool]:
    return lambda v: is_real(v) and low < v < high


def _either(*tests: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: any(test(v) for test in tests)


def _is_bounds(value: Any) -> bool:
    pair = isinstance(value, tuple | list) and len(value) == 2
    return pair and all(is_real(b) and 0 < b < np.inf for b in value) and value[0] <= 1 <= value[1]


def _is_none(value: Any) -> bool:
    return value is None


def _at_least_one(value: Any) -> bool:
    return is_real(value) and 1 <= value < np.inf


def _are_members(value: Any) -> bool:
    named = isinstance(value, tuple | list) and all(isinstance(v, str) and v in MEMBERS for v in value)
    return named and "gp" in value and len(set(value)) == len(value)


def _is_anything(value: Any) -> bool:
    return True


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _parameter(
    default: Any, accepts: Callable[[Any], bool], rule: str, methods: tuple[str, ...] = METHODS
) -> Any:
    """Declare an argument; `rule` completes 'name=value must be …'."""
    return field(default=default, metadata={"accepts": accepts, "rule": rule, "methods": methods})


@dataclass(frozen=True)
class Settings:
    """The arguments of the regressor at its first batch, and a seed; StreamingGPRegressor describes each."""

    kernel: Any = _parameter(AUTO, _is_anything, "")  # see check_kernel_argument
    method: str = _parameter("pivoted", _one_of(*METHODS), f"one of {', '.join(METHODS)}")
    likelihood: str = _parameter(
        GAUSSIAN,
        _one_of(GAUSSIAN, *LIKELIHOODS),
        f"one of {', '.join((GAUSSIAN, *LIKELIHOODS))}; for classes use StreamingGPClassifier",
        ("pivoted",),
    )
    rank: int | str = _parameter(
        500,
        _either(_whole(1), _one_of("auto")),
        "a whole number, 1 or more, or 'auto' with method='pivoted'",
        ("pivoted", "srmf", "brmf", "rgp"),
    )
    max_rank: int = _parameter(1000, _whole(1), "a whole number, 1 or more", ("pivoted",))
    tolerance: float = _parameter(0.03, _between(0, 1), "between 0 and 1, such as 0.03", ("pivoted",))
    oversampling: int = _parameter(10, _whole(0), "a whole number, 0 or more", SPECTRAL)
    noise: float | str = _parameter(
        "auto",
        _either(_between(0, np.inf), _one_of("auto")),
        "a variance above 0, or 'auto'; for data without noise give a small one",
    )
    tune: str = _parameter("doubling", _one_of(*MODES), f"one of {', '.join(MODES)}")
    objective: str = _parameter("evidence", _one_of(*OBJECTIVES), f"one of {', '.join(OBJECTIVES)}")
    initial_batches: int = _parameter(10, _whole(1), "a whole number, 1 or more")
    bounds: tuple[float, float] = _parameter(
        (1e-3, 1e3),
        _is_bounds,
        "two multiples of the start, the lower at most 1 and the upper at least 1, such as (1e-3, 1e3)",
    )
    forgetting: float | str = _parameter(
        AUTO,
        _either(lambda v: is_real(v) and 0 < v <= 1, _one_of("auto")),
        "above 0 and at most 1, such as 0.99, or 'auto'",
        MERGEABLE,
    )
    memory_rows: float | None = _parameter(
        None,
        _either(_is_none, _at_least_one),
        "a number of rows, 1 or more, such as 1000, or None",
        MERGEABLE,
    )
    memory: str = _parameter("bounded", _one_of("bounded", "rows"), "'bounded' or 'rows'", ("pivoted",))
    variant: str = _parameter(
        "projected", _one_of("projected", "literal"), "'projected' or 'literal'", SPECTRAL
    )
    refactor: bool = _parameter(False, _is_flag, "True or False", ("nrmf",))
    basis: Any = _parameter(None, _is_anything, "", ("rgp",))  # see basis_points
    guard: float | str | None = _parameter(
        AUTO,
        _either(_is_none, _one_of(AUTO), _between(0, np.inf)),
        "'auto', a number of deviations above 0, such as 10, or None",
    )
    mixed_precision: bool = _parameter(False, _is_flag, "True or False", ("pivoted",))
    missing: str = _parameter("impute", _one_of("impute", "raise"), "'impute' or 'raise'")
    target_transform: str | None = _parameter(
        None, _either(_is_none, _one_of(*TRANSFORMS, AUTO)), "'log', 'sqrt', 'logit', 'auto' or None"
    )
    members: str | tuple[str, ...] = _parameter(
        AUTO,
        _either(_one_of(AUTO), _are_members),
        f"'auto', or names among {', '.join(MEMBERS)}, 'gp' among them, such as ('gp', 'ridge')",
        ("pivoted",),
    )
    neighbours: int = _parameter(32, _whole(0), "a whole number, 0 for none", ("pivoted",))
    store: int = _parameter(20_000, _whole(0), "a whole number of rows, 0 for none", ("pivoted",))
    background: bool = _parameter(True, _is_flag, "True or False")
    mean_function: Any = _parameter(None, is_mean_function, "a function of X, a fitted regressor, or None")
    seed: int = 0

    @classmethod
    def of(cls, gp: Any, seed: int) -> Self:
        """Return the checked arguments of a regressor."""
        check_parameters(gp)
        return cls(**{name: getattr(gp, name) for name in DECLARED}, seed=seed)

    def followed(self, gp: Any) -> Self:
        """Return these settings with the arguments of `gp` that may change between batches (CHANGEABLE)."""
        # Compared by identity: it is quick, and arrays and kernels have no plain `==`.
        # A mean function stays that of the first batch: of a regressor a copy.
        if all(getattr(gp, name) is getattr(self, name) for name in DECLARED if name != "mean_function"):
            return self
        # The others are checked, and take effect, at the next `fit`.
        now = replace(self, **{name: getattr(gp, name) for name in CHANGEABLE})
        check_parameters(now)
        return now

    def saveable(self) -> Self:
        """Return these settings with a kernel of scikit-learn replaced by ours."""
        if self.kernel is None or isinstance(self.kernel, str):
            return self
        return replace(self, kernel=as_kernel(self.kernel))

    def rate(self, rows: int) -> float:
        """Return what a batch of so many rows multiplies the weight of the past by."""
        if self.memory_rows is None:
            return 1.0 if self.forgetting == AUTO else float(self.forgetting)
        return max(math.exp(-rows / self.memory_rows), LEAST_RATE)

    @property
    def panel(self) -> tuple[str, ...]:
        """The names of the members of the panel, the Gaussian process first."""
        if self.method != "pivoted" or self.likelihood != GAUSSIAN:
            return ("gp",)
        if self.members != AUTO:
            wanted: tuple[str, ...] = tuple(self.members)
        else:
            free = self.kernel is None or (isinstance(self.kernel, str) and self.kernel == AUTO)
            # Where a kernel was given, it is the user's model that is wanted.
            wanted = MEMBERS if free else MEMBERS[:2]
        without = () if self.neighbours and self.store else ("neighbours",)
        return tuple(name for name in MEMBERS if name in wanted and name not in without)

    @property
    def most_features(self) -> int:
        """The most features that are kept."""
        return self.max_rank if self.rank == "auto" else int(self.rank)


DECLARED = {f.name: f for f in fields(Settings) if f.metadata}
# Arguments that take effect at the next batch; the others take effect at the next `fit`.
CHANGEABLE = ("background", "tune", "objective", "initial_batches", "bounds", "forgetting", "memory_rows")

# Arguments that a likelihood leaves without a meaning, and why; docs/likelihoods.md.
NOT_UNDER_LIKELIHOOD = {
    "target_transform": "the likelihood says how targets are distributed",
    "noise": "the likelihood is the noise",
    "objective": "hyperparameters maximise the evidence",
    "guard": "no row is refused; likelihood='student' learns little from far ones",
    "mean_function": "it is taken off the targets, and what is left of a count is no count",
    "mixed_precision": "every row has a weight of its own",
    "members": "the other members of the panel predict normal distributions",
    "neighbours": "the other members of the panel predict normal distributions",
    "store": "the other members of the panel predict normal distributions",
}


def check_parameters(gp: Any) -> None:
    """Raise ParameterError or KernelError for an argument out of range, or one that its method does not use."""
    for name, declared in DECLARED.items():
        value = getattr(gp, name)
        if not declared.metadata["accepts"](value):
            raise ParameterError(f"{name}={_short(value)} must be {declared.metadata['rule']}")
    if gp.rank == "auto" and gp.method != "pivoted":
        raise ParameterError(f"rank='auto' is used by method='pivoted', not by {gp.method!r}; give a number")
    for name, declared in DECLARED.items():
        value, methods = getattr(gp, name), declared.metadata["methods"]
        # What every other method does.
        plain = (name == "forgetting" and _equals(value, 1)) or (
            name == "members" and value in (("gp",), ["gp"])
        )
        if gp.method not in methods and not _equals(value, declared.default) and not plain:
            used = " or ".join(repr(m) for m in methods)
            raise ParameterError(
                f"{name}={_short(value)} is used by method={used}, not by {gp.method!r}; leave it at "
                f"{declared.default!r}"
            )
    for name in ("max_rank", "tolerance"):
        if gp.rank != "auto" and not _equals(getattr(gp, name), DECLARED[name].default):
            raise ParameterError(
                f"{name}={getattr(gp, name)!r} is used with rank='auto', not with rank={gp.rank!r}; leave it at "
                f"{DECLARED[name].default!r}"
            )
    if gp.memory_rows is not None and not _equals(gp.forgetting, DECLARED["forgetting"].default):
        raise ParameterError(
            f"memory_rows={gp.memory_rows!r} and forgetting={gp.forgetting!r} say the same thing; give one of them"
        )
    if gp.likelihood != GAUSSIAN:
        _check_under_likelihood(gp)
    if gp.target_transform is not None and gp.mean_function is not None:
        raise ParameterError(
            f"target_transform={gp.target_transform!r} and mean_function are not built together; transform the target "
            "and the mean yourself, and give the mean"
        )
    check_kernel_argument(gp.kernel)


def _check_under_likelihood(gp: Any) -> None:
    """Raise ParameterError for an argument that has no meaning under a likelihood."""
    for name, reason in NOT_UNDER_LIKELIHOOD.items():
        value, default = getattr(gp, name), DECLARED[name].default
        plain = (name == "members" and value in (("gp",), ["gp"])) or (name == "guard" and value is None)
        if not _equals(value, default) and not plain:
            raise ParameterError(
                f"{name}={_short(value)} has no meaning with likelihood={gp.likelihood!r}: {reason}; leave it at "
                f"{default!r}"
            )
    if gp.tune == "hybrid":
        raise ParameterError(
            f"tune='hybrid' is of the weights of affine kernels, not of likelihood={gp.likelihood!r}; use 'doubling'"
        )


def _short(value: Any) -> str:
    """Return the text of a value for an error, not longer than a line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def used_by(method: str = "pivoted", **given: Any) -> dict[str, Any]:
    """Return `method` and those of the given arguments that it uses: nrmf has no rank, and refuses one."""
    unused = {name for name, f in DECLARED.items() if method not in f.metadata["methods"]}
    return {"method": method, **{name: value for name, value in given.items() if name not in unused}}


def _equals(value: Any, default: Any) -> bool:
    """Return whether an argument was left at its default; arrays and other objects were not."""
    return value is default or (isinstance(value, bool | int | float | str | np.generic) and value == default)


def check_kernel_argument(kernel: Any) -> None:
    """Raise KernelError where `kernel` is neither a kernel, nor None, nor the name of a family."""
    if isinstance(kernel, str):
        if kernel != "auto" and kernel not in FAMILIES:
            raise KernelError(f"kernel={kernel!r} must be a kernel, 'auto', or one of {', '.join(FAMILIES)}")
    elif kernel is not None:
        as_kernel(kernel)


def given_kernel(settings: Settings, n_features: int) -> Any:
    """Return the kernel that was given, checked against the data; None where it is to be chosen from the data."""
    if settings.kernel is None or isinstance(settings.kernel, str):
        return None
    kernel = as_kernel(settings.kernel)
    kernel.check_features(n_features)
    if kernel.without_nugget().nugget:
        raise KernelError(f"kernel={kernel} is white noise only; add a kernel of the inputs to it")
    return kernel


def basis_points(given: Any, X: Array) -> Array:
    """Return the inducing points given to rgp, checked, beside X (n, d)."""
    try:
        points = np.asarray(to_host(given) if is_foreign(given) else given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"basis must be an array of numbers (m, {X.shape[1]})") from error
    if (
        points.ndim != 2
        or points.shape[1] != X.shape[1]
        or not points.shape[0]
        or not np.isfinite(points).all()
    ):
        raise ParameterError(
            f"basis of shape {points.shape} must be finite, with {X.shape[1]} columns as X and a row or more"
        )
    return asarray_like(points, X)
