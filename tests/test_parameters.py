"""Parameters: each declared once, checked by its rule, and refused by the methods that do not use it."""

import inspect

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import KernelError, ParameterError
from streamgp.parameters import DECLARED, METHODS, Settings
from streams import X0, Y0

# Parameters that only some methods use: a valid value that is not the default, and these methods.
SPECIFIC = {
    "likelihood": ("student", ("pivoted",)),
    "rank": (40, ("pivoted", "srmf", "brmf", "rgp")),
    "max_rank": (50, ("pivoted",)),
    "tolerance": (0.1, ("pivoted",)),
    "oversampling": (3, ("srmf", "brmf")),
    "forgetting": (0.9, ("pivoted", "rgp")),
    "memory_rows": (100, ("pivoted", "rgp")),
    "memory": ("rows", ("pivoted",)),
    "variant": ("literal", ("srmf", "brmf")),
    "refactor": (True, ("nrmf",)),
    "basis": (X0[:10], ("rgp",)),
    "mixed_precision": (True, ("pivoted",)),
    "members": (("gp", "ridge"), ("pivoted",)),
    "neighbours": (8, ("pivoted",)),
    "store": (100, ("pivoted",)),
}
PAIRS = [(method, name) for method in METHODS for name in SPECIFIC]
USED = [(method, name) for method, name in PAIRS if method in SPECIFIC[name][1]]
UNUSED = [pair for pair in PAIRS if pair not in USED]


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"method": "magic"}, ParameterError, "method='magic' must be one of pivoted"),
        ({"rank": 0}, ParameterError, "rank=0 must be a whole number, 1 or more"),
        ({"rank": 2.5}, ParameterError, "rank=2.5"),
        ({"oversampling": -1}, ParameterError, "oversampling=-1"),
        ({"noise": 0.0}, ParameterError, "noise=0.0 must be a variance above 0"),
        ({"noise": -1}, ParameterError, "noise=-1"),
        ({"noise": np.nan}, ParameterError, "noise=nan"),
        ({"noise": "much"}, ParameterError, "noise='much'"),
        (
            {"method": "srmf", "forgetting": 0.9},
            ParameterError,
            "used by method='pivoted' or 'rgp', not by 'srmf'",
        ),
        ({"memory": "all"}, ParameterError, "memory='all' must be 'bounded' or 'rows'"),
        (
            {"method": "nrmf", "memory": "rows"},
            ParameterError,
            "used by method='pivoted', not by 'nrmf'",
        ),
        ({"method": "rgp", "forgetting": 1.1}, ParameterError, "at most 1"),
        ({"variant": "printed"}, ParameterError, "'projected' or 'literal'"),
        ({"kernel": "rbf"}, KernelError, "kernel='rbf' must be a kernel"),
        ({"kernel": kernels.Linear}, KernelError, r"use an object: Linear\(\)"),
        ({"kernel": kernels.White(1.0)}, KernelError, "white noise only"),
        ({"kernel": kernels.SquaredExponential([1.0, 2.0])}, KernelError, "2 values of length_scale"),
        ({"kernel": kernels.DistancePolynomial(), "method": "rgp"}, KernelError, "positive semi-definite"),
        (
            {"method": "rgp", "basis": np.zeros((4, 2))},
            ParameterError,
            r"\(4, 2\) must be finite, with 3 columns",
        ),
        ({"method": "rgp", "basis": "points"}, ParameterError, "basis"),
    ],
)
def test_an_argument_out_of_range_is_named_with_the_rule(arguments, kind, words):
    gp = StreamingGPRegressor(**arguments)
    for learn in (gp.fit, gp.partial_fit):
        with pytest.raises(kind, match=words):
            learn(X0, Y0)
    assert set(vars(gp)) == set(gp.get_params())  # no trace of the attempt


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (ParameterError, {"tune": "always"}),
        (ParameterError, {"objective": "likelihood"}),
        (ParameterError, {"bounds": (10.0, 0.1)}),
        (ParameterError, {"bounds": (1.5, 3.0)}),
        (ParameterError, {"bounds": (0.0, 3.0)}),
        (ParameterError, {"bounds": 3.0}),
        (ParameterError, {"initial_batches": 0}),
        (KernelError, {"kernel": "polynomial"}),
    ],
    ids=str,
)
def test_bad_arguments_are_named(error, arguments):
    X, y = wave(60)
    with pytest.raises(error):
        StreamingGPRegressor(**arguments).fit(X, y)


def test_every_argument_of_the_constructor_is_declared_once_with_its_default():
    signature = inspect.signature(StreamingGPRegressor.__init__).parameters
    constructor = {name: p.default for name, p in signature.items() if name not in ("self", "random_state")}
    declared = {name: field.default for name, field in DECLARED.items()}
    assert list(declared) == list(constructor)
    for name, default in constructor.items():
        assert (type(declared[name]), declared[name]) == (type(default), default), name
    assert StreamingGPRegressor().get_params() == {**declared, "random_state": None}


def test_every_default_obeys_its_own_rule():
    assert Settings.of(StreamingGPRegressor(), 0) == Settings()


def test_which_methods_use_a_parameter_is_what_its_declaration_says():
    declared = {name: field.metadata["methods"] for name, field in DECLARED.items()}
    specific = {name: methods for name, methods in declared.items() if set(methods) != set(METHODS)}
    assert specific == {name: methods for name, (_, methods) in SPECIFIC.items()}


@pytest.mark.parametrize(("method", "name"), UNUSED)
def test_a_parameter_that_the_method_does_not_use_is_refused_with_those_that_do(method, name):
    value, methods = SPECIFIC[name]
    gp = StreamingGPRegressor(method=method, **{name: value})
    for learn in (gp.fit, gp.partial_fit):
        with pytest.raises(ParameterError) as caught:
            learn(X0, Y0)
        said = str(caught.value)
        assert said.startswith(f"{name}={' '.join(repr(value).split())[:57]}")
        assert len(said) < 300  # a large array is not printed whole
        assert " is used by " in said
        assert f"not by {method!r}" in said
        assert [m for m in METHODS if repr(m) in said.partition(", not by ")[0]] == list(methods)
        assert said.endswith(f"leave it at {DECLARED[name].default!r}")
    assert set(vars(gp)) == set(gp.get_params())


@pytest.mark.parametrize(("method", "name"), USED)
def test_a_parameter_that_the_method_uses_is_accepted(method, name):
    rank = {"rank": "auto"} if name in ("max_rank", "tolerance") else {}
    gp = StreamingGPRegressor(method=method, random_state=0, **rank, **{name: SPECIFIC[name][0]})
    assert np.isfinite(gp.fit(X0, Y0).predict(X0)).all()


@pytest.mark.parametrize(
    "given",
    [{"forgetting": 1}, {"rank": np.int64(500)}, {"refactor": np.False_}, {"tolerance": np.float64(0.03)}],
)
@pytest.mark.parametrize("method", METHODS)
def test_a_default_of_another_type_is_the_default(method, given):
    assert StreamingGPRegressor(method=method, random_state=0, **given).fit(X0, Y0).n_samples_seen_ == 20


@pytest.mark.parametrize("name", ["max_rank", "tolerance"])
@pytest.mark.parametrize("rank", [500, 40])
def test_the_limits_of_an_automatic_rank_are_refused_without_it(name, rank):
    value = SPECIFIC[name][0]
    gp = StreamingGPRegressor(rank=rank, random_state=0, **{name: value})
    words = rf"{name}={value} is used with rank='auto', not with rank={rank}; leave it at {DECLARED[name].default}"
    with pytest.raises(ParameterError, match=words):
        gp.fit(X0, Y0)
    gp.set_params(rank="auto").fit(X0, Y0)


@pytest.mark.parametrize("method", METHODS[1:])
def test_an_automatic_rank_is_refused_by_every_method_but_pivoted(method):
    with pytest.raises(
        ParameterError, match=rf"rank='auto' is used by method='pivoted'.*, not by '{method}'"
    ):
        StreamingGPRegressor(method=method, rank="auto").fit(X0, Y0)


@pytest.mark.parametrize("name", ["tune", "objective", "initial_batches", "bounds", "forgetting"])
def test_what_may_change_between_batches_is_followed_and_checked_again(name):
    X, y = wave(60)
    changed = {
        "tune": "none",
        "objective": "loo",
        "initial_batches": 2,
        "bounds": (0.5, 2.0),
        "forgetting": 0.5,
    }
    gp = StreamingGPRegressor(random_state=0, rank=20).fit(X, y)
    gp.set_params(**{name: changed[name]}).partial_fit(X0, Y0)
    assert getattr(gp.learner_.settings, name) == changed[name]
    before = gp.learner_
    with pytest.raises(ParameterError, match=f"{name}=-1 must be"):
        gp.set_params(**{name: -1}).partial_fit(X0, Y0)
    assert gp.learner_ is before


def test_what_may_not_change_between_batches_waits_for_the_next_fit():
    X, y = wave(60)
    gp = StreamingGPRegressor(random_state=0, rank=20).fit(X, y).set_params(rank=10).partial_fit(X0, Y0)
    assert gp.learner_.settings.rank == 20
    assert gp.fit(X, y).learner_.settings.rank == 10


def test_arguments_that_wait_for_the_next_fit_are_not_judged_before_it():
    gp = StreamingGPRegressor(rank=5, tune="none", random_state=0).fit(X0, Y0)
    gp.set_params(method="nrmf").partial_fit(X0, Y0)  # goes on as it began
    assert gp.learner_.settings.method == "pivoted"
    with pytest.raises(ParameterError, match="rank=5 is used by"):
        gp.fit(X0, Y0)
