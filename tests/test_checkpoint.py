"""Laws of saving: going on equals never having stopped, and a bad file is an error and nothing else."""

import copy
import dataclasses
import hashlib
import json
import os
import struct

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import streamgp
from conftest import wave
from streamgp import StreamingGPRegressor, checkpoint, kernels
from streamgp.errors import CheckpointError
from streamgp.loading import load_with_more
from streamgp.parameters import used_by

CASES = [
    {},
    {"rank": 30, "forgetting": 0.95},
    {"rank": 40, "memory": "rows", "kernel": "dictionary"},
    {"method": "srmf", "rank": 30},
    {
        "method": "srmf",
        "rank": 20,
        "kernel": kernels.BrownianPolynomial((0.1, 1.0, 0.5)),
        "tune": "continuous",
    },
    {"method": "brmf", "rank": 20, "kernel": kernels.DistancePolynomial((1.0, 1.0, 1.0)), "tune": "hybrid"},
    {"method": "nrmf"},
    {"method": "rgp", "rank": 60},
    {"kernel": 2.0 * RBF([1.0, 2.0, 0.5]) + WhiteKernel(0.1), "noise": 0.2},
    {"kernel": kernels.Matern(1.0, nu=1.5) * kernels.Linear(2.0) + 0.3, "rank": "auto", "tune": "none"},
]


@pytest.mark.filterwarnings(
    "ignore::streamgp.errors.NegativeVarianceWarning"
)  # one of the kernels is indefinite
@pytest.mark.parametrize("arguments", CASES, ids=str)
@pytest.mark.parametrize("batch", [7, 60])
@pytest.mark.parametrize("q", [None, 2])
def test_save_load_continue_equals_never_having_stopped(tmp_path, arguments, batch, q):
    X, y = wave(420, q=q)
    whole = StreamingGPRegressor(random_state=3, **arguments)
    for i in range(0, 210, batch):
        whole.partial_fit(X[i : min(i + batch, 210)], y[i : min(i + batch, 210)])
    whole.save(tmp_path / "model")
    again = streamgp.load(tmp_path / "model")
    whole = copy.deepcopy(whole)
    for i in range(210, 420, batch):
        for gp in (whole, again):
            gp.predict(X[i : i + batch], return_interval=0.9)
            gp.partial_fit(X[i : i + batch], y[i : i + batch])
    assert again.n_samples_seen_ == whole.n_samples_seen_
    assert again.kernel_ == whole.kernel_
    assert again.learner_.scores.count == whole.learner_.scores.count
    for a, b in zip(
        again.predict(X, return_interval=0.8), whole.predict(X, return_interval=0.8), strict=True
    ):
        assert (a == b).all()


def test_what_waits_for_more_rows_is_saved_too(tmp_path):
    X, y = wave(80)
    gp = StreamingGPRegressor(random_state=0).partial_fit(X[:20], y[:20])
    gp.save(tmp_path / "model", position=17, file="rows.csv")
    again, more = load_with_more(tmp_path / "model")
    assert more == {"position": 17, "file": "rows.csv"}
    assert (again.partial_fit(X[20:], y[20:]).predict(X) == gp.partial_fit(X[20:], y[20:]).predict(X)).all()


def test_names_of_features_are_kept(tmp_path):
    X, y = wave(100)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    StreamingGPRegressor(random_state=0).fit(frame, y).save(tmp_path / "model")
    again = streamgp.load(tmp_path / "model")
    assert list(again.feature_names_in_) == ["a", "b", "c"]
    again.predict(frame)


def test_a_file_is_whole_or_not_there(tmp_path, monkeypatch):
    X, y = wave(100)
    gp = StreamingGPRegressor(random_state=0).fit(X, y)
    gp.save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CheckpointError, match="No space left"):
        gp.partial_fit(X, y).save(tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "model"]


def test_two_thousand_mutated_files_load_equal_or_raise_the_one_error(tmp_path):
    X, y = wave(60)
    gp = StreamingGPRegressor(random_state=0, rank=10).fit(X, y)
    path = tmp_path / "model"
    gp.save(path)
    good, expected = path.read_bytes(), gp.predict(X)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(2000):
        data = bytearray(good)
        kind = rng.integers(4)
        at = int(rng.integers(len(data)))
        if kind == 0:
            data[at] = int(rng.integers(256))
        elif kind == 1:
            data = data[:at]
        elif kind == 2:
            data[at:at] = rng.bytes(int(rng.integers(1, 9)))
        else:
            end = min(len(data), at + int(rng.integers(1, 200)))
            data[at:end] = rng.bytes(end - at)
        path.write_bytes(bytes(data))
        try:
            assert (streamgp.load(path).predict(X) == expected).all()
        except CheckpointError:
            refused += 1
    assert refused > 1900


@pytest.mark.parametrize(
    "header",
    [
        {"class": "os.system", "fields": {}},
        {"class": "Recent", "fields": {}},
        {"array": "|O", "shape": [1], "at": 0, "turned": False},
        {"array": "<f8", "shape": [10**9], "at": 0, "turned": False},
        {"array": "<f8", "shape": [1], "at": float("inf"), "turned": False},
        {"array": "<f8", "shape": [-1], "at": 0, "turned": False},
        {"dict": [[{"list": []}, 1]]},
        {"dict": []},
        [1, 2],
        "text",
        {"class": "Scores", "fields": {"values": 1}},
    ],
    ids=str,
)
def test_a_forged_header_with_a_right_checksum_runs_nothing_and_is_refused(tmp_path, header):
    text = json.dumps(header).encode()
    body = struct.pack("<Q", len(text)) + text
    path = tmp_path / "model"
    path.write_bytes(checkpoint.MAGIC + struct.pack("<I", 1) + hashlib.sha256(body).digest() + body)
    with pytest.raises(CheckpointError):
        streamgp.load(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "not a streamgp"), (b"PK\x03\x04 something", "not a streamgp"), (b"STREAMGP", "not a streamgp")],
)
def test_foreign_and_empty_files_are_named_so(tmp_path, content, said):
    path = tmp_path / "model"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=said):
        streamgp.load(path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        streamgp.load(tmp_path / "nothing")


def test_a_newer_format_is_refused_by_its_number(tmp_path):
    X, y = wave(60)
    path = tmp_path / "model"
    StreamingGPRegressor(random_state=0, rank=10).fit(X, y).save(path)
    data = bytearray(path.read_bytes())
    data[8:12] = struct.pack("<I", checkpoint.VERSION + 1)
    path.write_bytes(bytes(data))
    with pytest.raises(CheckpointError, match=f"format {checkpoint.VERSION + 1}"):
        streamgp.load(path)


def test_what_would_not_come_back_is_not_saved(tmp_path):
    X, y = wave(60)
    gp = StreamingGPRegressor(random_state=0, rank=10).fit(X, y)
    for more in (np.array(["x"], dtype=object), np.array(["x"]), object()):
        with pytest.raises(CheckpointError, match="cannot be saved"):
            gp.save(tmp_path / "model", more=more)
    gp.save(tmp_path / "model", number=np.array(3.0))
    assert load_with_more(tmp_path / "model")[1]["number"].shape == ()


def test_a_kernel_of_ones_own_is_held_once_it_is_registered(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Tent(kernels.Kernel):
        width: float = 1.0
        _hyperparameters = ("width",)

        def block(self, X, Y=None):
            Y = X if Y is None else Y
            return np.prod(np.clip(1 - np.abs(X[:, None] - Y[None]) / self.width, 0, None), axis=2)

        def diag(self, X):
            return np.ones(X.shape[0])

        def gradient(self, W, X, Y=None):
            return np.zeros(1)

    X = np.random.default_rng(0).uniform(0, 1, (60, 1))
    gp = StreamingGPRegressor(Tent(2.0), tune="none", noise=0.1, rank=10, random_state=0).fit(X, X[:, 0])
    with pytest.raises(CheckpointError, match=r"Tent.*checkpoint\.register it first"):
        gp.save(tmp_path / "m.gp")
    assert checkpoint.register(Tent) is Tent
    try:
        gp.save(tmp_path / "m.gp")
        np.testing.assert_array_equal(streamgp.load(tmp_path / "m.gp").predict(X), gp.predict(X))
    finally:
        del checkpoint._CLASSES["Tent"]
    with pytest.raises(CheckpointError, match="Tent is no class of streamgp's"):
        streamgp.load(tmp_path / "m.gp")


@pytest.mark.parametrize("cls", [int, kernels.Kernel, "Matern"])
def test_only_kernels_that_are_dataclasses_can_be_registered(cls):
    with pytest.raises(CheckpointError, match="a kernel and a dataclass"):
        checkpoint.register(cls)


def test_a_name_of_streamgp_is_not_given_away():
    @dataclasses.dataclass(frozen=True)
    class Matern(kernels.Linear):
        pass

    with pytest.raises(CheckpointError, match="another name"):
        checkpoint.register(Matern)


@pytest.mark.parametrize("method", ["pivoted", "nrmf", "srmf", "brmf", "rgp"])
def test_a_stop_between_predicting_and_learning_loses_no_score(method, tmp_path):
    X, y = wave(360)
    whole = StreamingGPRegressor(**used_by(method, rank=40), random_state=0).fit(X[:100], y[:100])
    stopped = copy.deepcopy(whole)
    for i in range(100, 360, 26):
        for gp in (whole, stopped):
            gp.predict(X[i : i + 26], return_interval=0.9)
        stopped.save(tmp_path / "model")
        stopped = streamgp.load(tmp_path / "model")
        for gp in (whole, stopped):
            gp.partial_fit(X[i : i + 26], y[i : i + 26])
    assert stopped.learner_.scores.count == whole.learner_.scores.count == 360
    for a, b in zip(*(gp.predict(X, return_interval=0.9) for gp in (whole, stopped)), strict=True):
        np.testing.assert_array_equal(a, b)
