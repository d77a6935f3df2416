"""Checks of the rows that users hand in: what is refused, and that a refusal changes nothing."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from conftest import wave
from streamgp import StreamingGPRegressor
from streamgp.errors import InputError
from streams import (
    X0,
    Y0,
    every_method,
    fitted,
)


def snapshot(gp):
    return pickle.dumps(dict(sorted(gp.__dict__.items())))


BAD_BATCHES = {
    "infinity in X": (np.where(np.eye(20, 3) > 0, np.inf, X0), Y0, "infinity"),
    "NaN in y": (X0, np.where(np.arange(20) == 3, np.nan, Y0), "NaN"),
    "infinity in y": (X0, np.where(np.arange(20) == 3, -np.inf, Y0), "infinity"),
    "a feature too few": (X0[:, :2], Y0, "2 features"),
    "a feature too many": (np.c_[X0, X0], Y0, "6 features"),
    "one dimension": (X0[:, 0], Y0, "1D array"),
    "three dimensions": (X0[:, :, None], Y0, "dim 3"),
    "no rows": (X0[:0], Y0[:0], "0 sample"),
    "y too short": (X0, Y0[:19], "inconsistent numbers of samples"),
    "another number of outputs": (X0, np.c_[Y0, Y0], r"\(n, 2\), earlier batches had \(n,\)"),
    "text": (X0.astype(str).astype(object) + "a", Y0, "could not convert"),
    "y beyond all bounds": (X0, Y0 * 1e200, "overflow"),
}


@every_method
@pytest.mark.parametrize(("X", "y", "words"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
def test_a_bad_batch_is_refused_and_the_model_stays_bit_for_bit(method, X, y, words):
    gp = fitted(method)
    before = snapshot(gp)
    kept_X, kept_y = X.copy(), y.copy()
    with pytest.raises(InputError, match=words) as caught:
        gp.partial_fit(X, y)
    assert len(str(caught.value)) > 30
    assert snapshot(gp) == before
    assert_array_equal(X, kept_X)
    assert_array_equal(y, kept_y)


def test_an_array_of_another_library_is_refused_not_copied(library):
    if library.name.startswith("numpy"):
        pytest.skip("NumPy is the same library")
    gp = fitted()
    with pytest.raises(InputError, match="convert X"):
        gp.predict(library.asarray(X0))
    with pytest.raises(InputError, match="convert X"):
        gp.partial_fit(library.asarray(X0), library.asarray(Y0))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda X, y: (X[:, :2], y), "2 features"),
        (lambda X, y: (np.where(np.eye(20, 3) > 0, np.nan, X), y), "X contains NaN or infinity"),
        (lambda X, y: (X, np.where(np.arange(20) > 3, np.inf, y)), "y contains NaN or infinity"),
        (lambda X, y: (X, y[:5]), "a target for each row"),
        (lambda X, y: (X[0], y), "give \\(n, d\\)"),
        (lambda X, y: (X[:0], y[:0]), "give \\(n, d\\)"),
        (lambda X, y: (X > 0, y), "real numbers"),
    ],
)
def test_other_libraries_batches_are_refused_as_clearly(library, change, words):
    if library.name.startswith("numpy"):
        pytest.skip("checked by scikit-learn")
    gp = StreamingGPRegressor(random_state=0).partial_fit(library.asarray(X0), library.asarray(Y0))
    before = gp.__dict__.copy()
    X, y = change(X0, Y0)
    with pytest.raises(InputError, match=words):
        gp.partial_fit(library.asarray(X), library.asarray(y))
    assert gp.__dict__ == before


def test_single_precision_models_refuse_what_does_not_fit():
    X, y = wave(60)
    gp = StreamingGPRegressor(random_state=0).partial_fit(X.astype(np.float32), y)
    with pytest.raises(InputError, match="beyond the range of float32"):
        gp.predict(np.full((1, 3), 1e200))


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (X0, ["a"] * 20),
        (X0, np.array([None] * 20)),
        (X0, 3.0),
        (X0, Y0.astype("datetime64[s]")),
        (X0.astype("datetime64[s]"), Y0),
        (X0.astype(str), Y0),
        (X0, sparse.csr_matrix(Y0[:, None])),
        (sparse.csr_matrix(X0), Y0),
        (None, Y0),
        (X0, None),
        (X0 + 1j, Y0),
        (X0, Y0 + 1j),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(X, y):
    with pytest.raises(InputError):
        StreamingGPRegressor(random_state=0).fit(X, y)


def test_derivative_graphs_and_odd_precisions_of_torch_are_taken_as_numbers():
    torch = pytest.importorskip("torch")
    X, y = torch.asarray(X0).requires_grad_(), torch.asarray(Y0)
    gp = StreamingGPRegressor(random_state=0).fit(X, y)
    assert_allclose(
        gp.predict(X).numpy(), StreamingGPRegressor(random_state=0).fit(X0, Y0).predict(X0), atol=1e-9
    )
    assert np.isfinite(
        StreamingGPRegressor(random_state=0).fit(X.detach().bfloat16(), y).predict(X).numpy()
    ).all()
    for bad in (y + 1j, y[:, None][:, :0], ["a"] * 20):
        with pytest.raises(InputError):
            StreamingGPRegressor(random_state=0).fit(X, bad)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("b", "x", "Row 3, column 'b': 'x'"),
        ("c", np.nan, "Row 3, column 'c': 'nan'"),  # with missing="raise"
        ("a", np.inf, "Row 3, column 'a'"),
    ],
)
def test_a_bad_cell_of_a_frame_is_named_and_nothing_else_is_advertised(column, value, said):
    frame = pd.DataFrame(X0[:, :3], columns=list("abc"))
    gp = StreamingGPRegressor(missing="raise", random_state=0).fit(frame, Y0)
    bad = frame.astype({column: object})
    bad.loc[3, column] = value
    for call, outcome in (
        (lambda: gp.predict(bad), "Nothing was predicted"),
        (lambda: gp.partial_fit(bad, Y0), "unchanged"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            call()
        assert outcome in str(caught.value)
        assert "HistGradientBoosting" not in str(caught.value)


def test_masked_values_are_refused_and_a_mask_of_nothing_is_none():
    X, y = wave(60)
    masked_X, masked_y = np.ma.masked_array(X, X > 1.9), np.ma.masked_array(y, y > 2)
    assert masked_X.mask.any()
    gp = StreamingGPRegressor(random_state=0)
    for rows, targets, name in ((masked_X, y, "X"), (X, masked_y, "y")):
        with pytest.raises(
            InputError, match=rf"{name} is a masked array with \d+ masked values, the first at"
        ):
            gp.fit(rows, targets)
    with pytest.raises(InputError, match="X is a masked array"):
        gp.fit(list(masked_X), y)
    gp.fit(np.ma.masked_array(X), np.ma.masked_array(y))
    with pytest.raises(InputError, match="masked array"):
        gp.predict(masked_X)
    assert_allclose(
        gp.predict(np.ma.masked_array(X)), StreamingGPRegressor(random_state=0).fit(X, y).predict(X)
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("kind", ["time", "text"])
def test_a_column_of_times_or_categories_is_named_with_the_remedy(library, kind):
    frames = pytest.importorskip(library)
    values = (
        pd.date_range("2020", periods=20, freq="h").to_pydatetime().tolist()
        if kind == "time"
        else ["u", "v"] * 10
    )
    X = frames.DataFrame({"a": X0[:, 0].tolist(), "clock": values})
    words = {
        "time": r"times in the columns 'clock'.*StreamColumns\(time",
        "text": r"'clock': 'u'.*StreamColumns\(cat",
    }
    with pytest.raises(InputError, match=words[kind]):
        StreamingGPRegressor().fit(X, Y0)
    gp = StreamingGPRegressor(random_state=0).fit(frames.DataFrame({"a": X0[:, 0], "clock": X0[:, 1]}), Y0)
    with pytest.raises(InputError, match=words[kind]):
        gp.predict(X)
