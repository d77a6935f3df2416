"""The factory: which state serves which method, kernel and number of rows."""

import numpy as np
import pytest

from conftest import wave
from streamgp import StreamingGPRegressor, kernels
from streamgp.errors import KernelError
from streamgp.methods import empty_state
from streamgp.methods.base import MergeableState, State
from streamgp.methods.exact import ExactState
from streamgp.methods.factory import NOISE_FLOOR, gathers
from streamgp.methods.pivoted import PivotedState
from streamgp.methods.printed import PrintedWeightedState
from streamgp.methods.recursive import RecursiveState
from streamgp.methods.spectral import SpectralState
from streamgp.methods.weighted import WeightedState
from streamgp.parameters import MERGEABLE, METHODS, MODES, Settings
from streams import PARTS

X, Y = wave(60, q=2)
STATIONARY = kernels.SquaredExponential(1.0)
AFFINE = kernels.WeightedSum(PARTS)
POLYNOMIAL = kernels.BrownianPolynomial((0.0, 0.7, 0.2))
INDEFINITE = kernels.DistancePolynomial((0.0, 0.7, 0.4))
TUNED, FIXED = {"tune": "doubling"}, {"tune": "none"}
# The table of methods/factory.py, with every kind of kernel.
TABLE = [
    *(("pivoted", t, k, PivotedState) for t in (TUNED, FIXED) for k in (STATIONARY, AFFINE, POLYNOMIAL)),
    ("pivoted", {"memory": "rows"}, STATIONARY, PivotedState),
    ("pivoted", {"rank": "auto"}, STATIONARY, PivotedState),
    *(("nrmf", t, k, ExactState) for t in (TUNED, FIXED) for k in (STATIONARY, AFFINE, INDEFINITE)),
    ("nrmf", {"refactor": True}, STATIONARY, ExactState),
    ("rgp", {"rank": 60}, STATIONARY, RecursiveState),
    ("rgp", {"rank": 61}, STATIONARY, ExactState),
    ("rgp", {"rank": 61, "basis": X[:5]}, STATIONARY, RecursiveState),
    ("rgp", {"rank": 60, **TUNED}, AFFINE, RecursiveState),
    *((m, t, STATIONARY, SpectralState) for m in ("srmf", "brmf") for t in (TUNED, FIXED)),
    *((m, {"tune": t}, AFFINE, WeightedState) for m in ("srmf", "brmf") for t in MODES if t != "none"),
    *((m, TUNED, k, WeightedState) for m in ("srmf", "brmf") for k in (POLYNOMIAL, INDEFINITE)),
    *((m, FIXED, k, SpectralState) for m in ("srmf", "brmf") for k in (AFFINE, POLYNOMIAL, INDEFINITE)),
    *((m, {"variant": "literal", **FIXED}, INDEFINITE, SpectralState) for m in ("srmf", "brmf")),
    *(
        (m, {"variant": "literal", "tune": t}, INDEFINITE, PrintedWeightedState)
        for m in ("srmf", "brmf")
        for t in MODES
        if t != "none"
    ),
    *(
        (m, {"variant": "literal", **TUNED}, k, PrintedWeightedState)
        for m in ("srmf", "brmf")
        for k in (AFFINE, POLYNOMIAL)
    ),
    *((m, {"variant": "literal", **TUNED}, STATIONARY, SpectralState) for m in ("srmf", "brmf")),
]


@pytest.mark.parametrize(("method", "given", "kernel", "kind"), TABLE)
def test_a_method_and_a_kernel_are_served_by_the_state_that_the_table_names(method, given, kernel, kind):
    state = empty_state(Settings(method=method, **given), kernel, 0.1, X, Y)
    assert type(state) is kind
    assert (state.count, state.kernel, state.noise.tolist()) == (0, kernel, [0.1] * Y.shape[1])
    assert state.update(X, Y).count == 60


@pytest.mark.parametrize("method", METHODS)
def test_a_state_can_be_merged_where_the_parameters_say_so(method):
    state = empty_state(Settings(method=method, rank=20), STATIONARY, 0.1, X, Y)
    assert isinstance(state, State)
    assert isinstance(state, MergeableState) == (method in MERGEABLE)


@pytest.mark.parametrize("method", ["pivoted", "rgp"])
def test_inducing_points_of_an_indefinite_kernel_are_refused_with_the_method_that_takes_it(method):
    with pytest.raises(KernelError, match=f"method='{method}' needs a positive semi-definite kernel.*'srmf'"):
        empty_state(Settings(method=method), INDEFINITE, 0.1, X, Y)


@pytest.mark.parametrize("method", METHODS)
def test_only_rgp_gathers_rows_and_only_without_a_basis(method):
    settings = Settings(method=method, rank=30)
    assert gathers(settings, 29) == (method == "rgp")
    assert not gathers(settings, 30)
    assert not gathers(Settings(method=method, rank=30, basis=X[:5]), 29)


@pytest.mark.parametrize(
    ("noise", "tuned", "floor"), [("auto", False, 0.1 * NOISE_FLOOR), ("auto", True, 0.1), (0.1, True, None)]
)
def test_a_noise_that_was_given_is_not_estimated_and_a_tuned_one_is_a_lower_bound(noise, tuned, floor):
    state = empty_state(Settings(noise=noise), STATIONARY, 0.1, X, Y, tuned=tuned)
    assert state.noise_floor == (None if floor is None else pytest.approx(np.full(Y.shape[1], floor)))


def test_the_regressor_takes_its_state_from_the_factory():
    for method, given, kernel, kind in TABLE:
        gp = StreamingGPRegressor(kernel, method=method, noise=0.1, random_state=0, **given).fit(X, Y)
        assert type(gp.learner_.state) is kind
        assert np.isfinite(gp.predict(X)).all()
