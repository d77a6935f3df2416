"""The kernel of a stream for which none was given: its family, its units, and where a tuning is centred."""

import numpy as np
import pytest

from streamgp.kernels import Matern, RationalQuadratic, SquaredExponential
from streamgp.tuning.families import (
    AUTO,
    clipped,
    families_of,
    family_of,
    like,
    natural_kernel,
    prior_widths,
    spread,
)
from streamgp.tuning.on_rows import tune_on_rows
from streamgp.tuning.optimise import Search

RNG = np.random.default_rng(2)
X = RNG.uniform(-1, 1, (200, 2)) * [1.0, 100.0]


def drawn(kernel, noise=0.01, seed=0):
    values, V = np.linalg.eigh(kernel.block(X) + noise * np.eye(len(X)))
    root = V * np.sqrt(np.maximum(values, 0.0))
    return root @ np.random.default_rng(seed).standard_normal((len(X), 1))


def test_an_argument_names_the_families_to_choose_from():
    assert families_of("auto") == families_of(None) == AUTO
    assert families_of("matern32") == ("matern32",)
    assert families_of("dictionary") == families_of(SquaredExponential(1.0)) == ()


@pytest.mark.parametrize("family", AUTO)
def test_a_natural_kernel_is_of_its_family_and_scales_with_the_data(family):
    kernel = natural_kernel(family, X, 2.0)
    assert family_of(kernel) == family
    other = natural_kernel(family, 1e6 * X, 2.0)
    np.testing.assert_allclose(other.block(1e6 * X), kernel.block(X), rtol=1e-9)
    assert prior_widths(kernel).shape == kernel.theta.shape


def test_another_family_takes_over_what_was_found():
    found = natural_kernel("matern32", X, 2.0)
    found = found.with_theta(found.theta + 0.3)
    other = like(found, natural_kernel("rational_quadratic", X, 1.0))
    assert other.kernels[0].factor == pytest.approx(found.kernels[0].factor)
    assert other.kernels[0].kernel.length_scale == pytest.approx(found.kernels[0].kernel.length_scale)
    assert other.kernels[1].level == pytest.approx(found.kernels[1].level)
    assert like(found, natural_kernel("matern32", X, 1.0)).theta == pytest.approx(found.theta)


def test_a_minority_of_absurd_rows_does_not_decide_the_units():
    bad = X.copy()
    bad[:40] *= 1e6
    ratio = spread(clipped(bad)) / spread(X)
    # A fifth of the rows at ten robust deviations instead of one.
    assert (ratio < 10).all()
    assert (ratio >= 1).all()


@pytest.mark.parametrize(
    ("truth", "smooth"),
    [(SquaredExponential([0.5, 50.0]), True), (Matern([0.7, 70.0], 0.5), False)],
    ids=["smooth", "rough"],
)
def test_the_family_is_chosen_by_the_evidence(truth, smooth):
    start = natural_kernel("matern32", X, 1.0)
    search = Search(start.theta, (1e-3, 1e3), tune_noise=True, families=AUTO)
    tuned = tune_on_rows(start, 0.1, X, drawn(truth), kind="evidence", search=search)
    assert tuned.verdict == "taken"
    chosen = family_of(tuned.kernel)
    assert chosen in (("squared_exponential", "rational_quadratic", "matern52") if smooth else ("matern12",))


def test_a_name_fixes_the_family():
    start = natural_kernel("matern32", X, 1.0)
    search = Search(start.theta, (1e-3, 1e3), tune_noise=True, families=("matern32",))
    tuned = tune_on_rows(
        start, 0.1, X, drawn(RationalQuadratic([0.5, 50.0], 0.5)), kind="evidence", search=search
    )
    assert family_of(tuned.kernel) == "matern32"
