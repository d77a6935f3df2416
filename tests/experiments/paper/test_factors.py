"""The streams of factors are those of the library, and the ablation tells which part diverges."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from experiments.paper import cells, factors
from experiments.paper.factors import METHODS, Setting
from streamgp.datasets import load_arm

ARM = load_arm(1000)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("setting", [Setting(1.0, 0.5, 20, 10), Setting(2.0, 0.1, 40, 0)], ids=["20", "40"])
def test_a_run_over_all_variants_has_the_errors_of_the_library(method, setting):
    found = factors.table_one(ARM, rows=600, setting=setting, seed=0)
    for protocol in factors.PROTOCOLS:
        given = {"rows": 600, "row": method, "setting": setting, "protocol": protocol}
        library = cells.table_one(ARM, **given)["rmse"]
        ours = found[f"{method} | {protocol}"]
        assert ours[0] is library[0] is None
        # Self-training multiplies rounding where the printed pair diverges; four batches of it are compared.
        assert_allclose(ours[1:5], library[1:5], rtol=1e-6)


@pytest.mark.parametrize("kind", factors.KINDS)
@pytest.mark.parametrize("noise", [1e-5, 1e-4])
def test_the_printed_pair_is_worse_by_order_one_over_noise_with_every_factor(kind, noise):
    stream = factors.stream_of(ARM, 600)
    K = factors.kernel_matrix(stream, 1.0)
    found = factors.run_variants(stream, K, kind, (20, 10), (noise, 10 * noise), seed=0)

    def error(cross, value):
        return factors.mean_of(found[f"labels known|{cross}|{value:g}"]["rmse"])

    # k⊥ᵀy⊥/σ² dominates: ten times the noise, a tenth of the error. The projected pair does not depend on it so.
    assert error("exact", noise) / error("exact", 10 * noise) == pytest.approx(10, rel=0.1)
    assert error("projected", noise) < 2 * error("projected", 10 * noise)
    assert found[f"labels known|exact|{noise:g}"]["negative"] > 0.5


@pytest.mark.parametrize("kind", ["projected", "batch"])
def test_the_projected_pair_has_no_negative_variance_where_the_factor_is_a_compression_of_k(kind):
    stream = factors.stream_of(ARM, 600)
    K = factors.kernel_matrix(stream, 1.5)
    found = factors.run_variants(stream, K, kind, (15, 5), (1e-6, 1e-2, 1.0), seed=1)
    assert all(run["negative"] == 0 for key, run in found.items() if "|projected|" in key)


def test_a_run_that_overflows_says_so_from_then_on_and_the_others_go_on():
    stream = factors.stream_of(ARM, 1000)
    found = factors.run_variants(
        stream, factors.kernel_matrix(stream, 0.5), "printed", (5, 0), (1e-12, 1.0), 0
    )
    broken = found["self-training|exact|1e-12"]["rmse"]
    assert broken[-1] is None
    assert factors.mean_of(broken) == np.inf
    assert None not in found["self-training|projected|1"]["rmse"][1:]


def test_nrmf_of_the_sweep_is_the_exact_gp_under_self_training():
    found = factors.sweep(ARM, rows=600, length=1.0, size=(20, 0), noises=(0.1, 1.0))
    for i, noise in enumerate((0.1, 1.0)):
        given = {"rows": 600, "row": "NRMF", "protocol": "self-training"}
        run = cells.table_one(ARM, setting=Setting(1.0, noise, 20, 0), **given)
        assert found["NRMF"][i] == pytest.approx(factors.mean_of(run["rmse"]), rel=1e-8)
