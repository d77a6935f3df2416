"""Exported models answer as `predict` does: one file of C, compiled here, and ONNX through onnxruntime."""

import ctypes
import pickle
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from app.helpers import invoke
from conftest import wave
from streamgp import StreamingGPRegressor, kernels, load
from streamgp.errors import ExportError, ExportWarning, ParameterError
from streamgp.export import export

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
WHOLE = ("gp", "ridge", "ridge_recent", "level")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")
# In standard deviations: float64 has sixteen digits, of which coefficients that cancel lose some.
EXACT = 1e-6


def compiled(source, q, dtype, prefix="streamgp", flags=("-O1",)):
    """The function PREFIX_predict of a C file, for rows X (n, d); returns mean, std, lower, upper, each (n, q)."""
    library = source.with_suffix(".so")
    strict = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
    subprocess.run([COMPILER, *strict, *flags, "-shared", "-fPIC", source, "-o", library, "-lm"], check=True)
    function = getattr(ctypes.CDLL(str(library)), f"{prefix}_predict")
    function.argtypes = [np.ctypeslib.ndpointer(dtype)] * 5

    def predict(X):
        rows = []
        for row in np.ascontiguousarray(X, dtype=dtype):
            out = np.empty((4, q), dtype)
            assert function(row, *out) == 0
            rows.append(out)
        return list(np.stack(rows, axis=1).astype(np.float64))

    predict.function = function
    return predict


def in_onnx(file, dtype):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return lambda X: session.run(["mean", "std", "lower", "upper"], {"X": np.asarray(X, dtype=dtype)})


def learned(X, y, batch=100, **arguments):
    gp = StreamingGPRegressor(**({"rank": 15, "random_state": 0, "members": WHOLE} | arguments))
    for start in range(0, len(X), batch):
        gp.partial_fit(X[start : start + batch], y[start : start + batch])
    return gp


def differences(found, gp, X, **question):
    """The largest differences of mean, std and interval from those of `predict`, in standard deviations."""
    wanted = gp.predict(X, return_std=True, **({"return_interval": 0.9} | question))
    pairs = zip(found, wanted, strict=True)
    return max(np.max(np.abs(np.reshape(a, b.shape) - b) / wanted[1]) for a, b in pairs)


def check(gp, X, folder, **question):
    """Both exports agree with `predict`."""
    q = 1 if np.ndim(gp.predict(X[:1])) == 1 else gp.predict(X[:1]).shape[1]
    if COMPILER is not None:
        source = export(gp, folder / "m.c").path
        assert differences(compiled(source, q, np.float64)(X), gp, X, **question) < EXACT
    file = export(gp, folder / "m.onnx").path
    answers = in_onnx(file, np.float64)(X)
    assert answers[0].shape == gp.predict(X).shape
    assert differences(answers, gp, X, **question) < EXACT


@dataclass(frozen=True)
class Unknown(kernels.SquaredExponential):
    """A kernel that the library does not know."""


TREND = kernels.Trend(origin=(0.1, -0.2, 0.3), unit=(1.0, 2.0, 0.5))
KERNELS = {
    "squared exponential": kernels.SquaredExponential((1.0, 2.0, 0.7)),
    "matern 1/2": kernels.Matern((1.0, 2.0, 0.7), nu=0.5),
    "matern 3/2": kernels.Matern(1.5, nu=1.5),
    "matern 5/2": 2.0 * kernels.Matern((1.0, 2.0, 0.7)),
    "rational quadratic": kernels.RationalQuadratic((1.0, 2.0, 0.7), 0.6),
    "periodic": kernels.Periodic((1.0, 2.0, 0.7), (3.0, 4.0, 5.0)),
    "linear": kernels.Linear((1.0, 2.0, 0.7)) + kernels.SquaredExponential(2.0),
    "constant": kernels.Constant(2.0),
    "white": kernels.SquaredExponential(1.0) + kernels.White(0.1),
    "product": kernels.Linear() * kernels.SquaredExponential(3.0),
    "weighted": kernels.dictionary(2.0, n=3),
    "brownian": kernels.BrownianPolynomial((0.0, 1.0, 0.3), origin=(0.1, 0.2, 0.3)),
    "trend": TREND + kernels.SquaredExponential(2.0),
    "trend alone": TREND,
}


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_exported_exactly(name, tmp_path):
    X, y = wave(230)
    gp = learned(X, y, kernel=KERNELS[name], noise=0.05, tune="none")
    check(gp, np.vstack([X[:30], wave(30, seed=1)[0], 50.0 * X[:3]]), tmp_path)


def test_each_kernel_of_the_library_is_exported_or_refused_by_the_method():
    kinds = {
        kind for kind in vars(kernels).values() if isinstance(kind, type) and issubclass(kind, kernels.Kernel)
    }
    kinds -= {kernels.Kernel, kernels.Affine}
    used = set()

    def walk(kernel):
        used.add(type(kernel))
        for part in [*getattr(kernel, "kernels", ()), *filter(None, [getattr(kernel, "kernel", None)])]:
            walk(part)

    for kernel in KERNELS.values():
        walk(kernel)
    assert kinds - used == {
        kernels.DistancePolynomial
    }  # not positive semi-definite: pivoted and rgp refuse it


@pytest.mark.parametrize(
    "arguments",
    [
        {"kernel": "rational_quadratic"},
        {"members": ("gp",), "rank": "auto"},
        {"method": "rgp", "members": "auto", "rank": 20},
        {"kernel": kernels.SquaredExponential(1.5), "members": ("gp",), "forgetting": 0.99, "memory": "rows"},
    ],
    ids=str,
)
def test_what_a_stream_has_taught_is_exported_exactly(arguments, tmp_path):
    X, y = wave(333)
    gp = learned(X, 40.0 + 7.0 * y, **arguments)
    gp.partial_fit(X[:1], [40.0])  # a row that waits to be folded in
    check(gp, wave(50, seed=1)[0], tmp_path)


@pytest.mark.parametrize("split", [False, True])
def test_outputs_with_noise_of_their_own_and_missing_labels_are_exported_exactly(split, tmp_path):
    X, y = wave(300, q=3)
    y = y * [1.0, 10.0, 0.1] + np.random.default_rng(2).normal(0, [0.01, 5.0, 0.1], y.shape)
    if split:
        y[150:200, 1] = np.nan
    gp = learned(X, y)
    gp.partial_fit(X[:3], y[:3])  # rows that wait to be folded in
    check(gp, wave(40, seed=1)[0], tmp_path)


@pytest.mark.parametrize("way", ["input", "mean"])
def test_spreads_that_depend_on_the_row_are_exported_exactly(way, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (2000, 2))
    mean = 3.0 * np.sin(3 * X[:, 0]) + X[:, 1]
    size = 0.02 + (np.abs(X[:, 0]) > 1 if way == "input" else np.exp(mean) / 20)
    gp = learned(X, mean + size * rng.standard_normal(2000), batch=200, rank=40)
    local = gp.learner_.mixture.scores.local
    assert local.chosen.any()
    check(gp, rng.uniform(-2, 2, (60, 2)), tmp_path)


def test_neighbours_are_left_out_with_a_warning_and_otherwise_nothing_is(tmp_path):
    X, y = wave(600, d=4)
    gp = learned(X, y, members="auto", rank=10)
    with pytest.warns(ExportWarning, match=r"leaves out what neighbours tell \(weight 0\.\d\d"):
        done = export(gp, tmp_path / "m.onnx")
    assert len(done.left_out) == 1
    alone = pickle.loads(pickle.dumps(gp))
    mixture = alone._learner.mixture
    object.__setattr__(mixture, "gain", 0.0 * mixture.gain)
    object.__setattr__(mixture, "seen", 100)  # no look at neighbours is due
    assert not mixture.asks
    assert differences(in_onnx(done.path, np.float64)(X), alone, X) < EXACT


def test_a_mean_function_is_left_to_the_caller_with_a_warning(tmp_path):
    X, y = wave(300)
    gp = learned(X, y + 5.0 * X[:, 0], mean_function=lambda X: 5.0 * X[:, 0])
    with pytest.warns(ExportWarning, match="add what it says to mean, lower and upper"):
        done = export(gp, tmp_path / "m.onnx")
    mean, std, lower, upper = in_onnx(done.path, np.float64)(X)
    found = [mean + 5.0 * X[:, 0], std, lower + 5.0 * X[:, 0], upper + 5.0 * X[:, 0]]
    assert differences(found, gp, X) < EXACT


@needs_compiler
@pytest.mark.parametrize("kernel", ["squared_exponential", "matern32"])
def test_the_error_of_float32_is_measured_and_said(kernel, tmp_path):
    X, y = wave(800, d=6)
    gp, T = learned(X, y, kernel=kernel, rank=120), wave(300, d=6, seed=1)[0].astype(np.float32)
    done = export(gp, tmp_path / "m.c", dtype="float32")
    assert 0 < done.mean_error < 0.01
    assert f"mean {done.mean_error:.1g}, std {done.std_error:.1g}" in done.path.read_text()
    # Other rows and another order of summation than where it was measured.
    assert differences(compiled(done.path, 1, np.float32)(T), gp, T.astype(np.float64)) < 10 * done.mean_error
    file = export(gp, tmp_path / "m.onnx", dtype="float32").path
    assert differences(in_onnx(file, np.float32)(T), gp, T.astype(np.float64)) < 10 * done.mean_error
    assert export(gp, tmp_path / "m.c").mean_error == 0


@needs_compiler
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_no_numbers_get_no_answer(value, tmp_path):
    X, y = wave(300)
    gp = learned(X, y)
    row, out = X[0].copy(), np.zeros((4, 1))
    row[1] = value
    assert compiled(export(gp, tmp_path / "m.c").path, 1, np.float64).function(row, *out) == 1
    answers = in_onnx(export(gp, tmp_path / "m.onnx").path, np.float64)(np.stack([row, X[1]]))
    assert all(np.isnan(answer[0]) and np.isfinite(answer[1]) for answer in answers)


@needs_compiler
def test_interval_and_prefix_are_those_asked_for(tmp_path):
    X, y = wave(300)
    gp = learned(X, y)
    export(gp, tmp_path / "m.c", interval=0.5, prefix="arm_1")
    found = compiled(tmp_path / "m.c", 1, np.float64, prefix="arm_1")(X)
    assert differences(found, gp, X, return_interval=0.5) < EXACT
    assert "#define ARM_1_FEATURES 3" in (tmp_path / "m.c").read_text()


@needs_compiler
def test_the_controller_of_the_robots_page_adds_what_was_learned_to_its_equations(tmp_path):
    page = Path(__file__).resolve().parents[2] / "docs" / "robot.md"
    (block,) = re.findall(r"^```c\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    equations = "void rigid_body(const float x[6], float out[2]) { out[0] = 2 * x[0]; out[1] = x[5]; }\n"
    (tmp_path / "controller.c").write_text(block + equations)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = 3 * np.sin(2 * X[:, :2]) + 0.1 * rng.normal(size=(300, 2))
    gp = learned(X, y, rank=60, members=("gp",))
    export(gp, tmp_path / "friction.c", dtype="float32", prefix="friction")
    library = tmp_path / "controller.so"
    strict = ("-std=c99", "-Wall", "-Werror")
    command = [COMPILER, *strict, "-shared", "-fPIC", tmp_path / "controller.c", "-o", library, "-lm"]
    subprocess.run(command, check=True)
    torque = ctypes.CDLL(str(library)).torque
    torque.argtypes = [np.ctypeslib.ndpointer(np.float32)] * 2
    for far in (0.1, 30.0):  # far from all rows the equations answer alone
        row, out = np.full(6, far, np.float32), np.empty(2, np.float32)
        assert torque(row, out) == 0
        mean, std = gp.predict(row[None, :].astype(float), return_std=True)
        wanted = np.array([2 * row[0], row[5]]) + np.where(std[0] < 1.0, mean[0], 0.0)
        np.testing.assert_allclose(out, wanted, atol=1e-3)
        assert (std[0] < 1.0).all() == (far < 1.0)
    assert torque(np.full(6, np.nan, np.float32), out) == 1


@pytest.mark.parametrize(
    ("learner", "arguments", "error", "message"),
    [
        (
            {"method": "nrmf", "members": "auto", "rank": 500},
            {},
            ExportError,
            "keeps every row .* method='pivoted' or 'rgp'",
        ),
        ({"method": "srmf", "members": "auto"}, {}, ExportError, "keeps every row"),
        (
            {"kernel": Unknown(1.0)},
            {},
            ExportError,
            "Unknown cannot be exported; only those of streamgp.kernels",
        ),
        ({"likelihood": "student", "members": "auto"}, {}, ParameterError, "exporting is not defined"),
        ({}, {"dtype": "float16"}, ExportError, "'float16' must be"),
        ({}, {"interval": 1.5}, ParameterError, "interval"),
        ({}, {"prefix": "2nd arm"}, ExportError, "must be a name in C"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_an_older_file_stays(
    learner, arguments, error, message, tmp_path
):
    X, y = wave(120)
    gp = learned(X, y, **learner)
    (tmp_path / "m.c").write_text("older")
    with pytest.raises(error, match=message):
        export(gp, tmp_path / "m.c", **arguments)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["older"]
    with pytest.raises(ExportError, match=r"must end in \.c or \.onnx"):
        export(gp, tmp_path / "m.txt")


def test_exporting_changes_nothing_and_a_loaded_model_is_exported_to_the_same_bytes(tmp_path):
    X, y = wave(310)
    gp = learned(X, y)
    gp.save(tmp_path / "before.gp")
    for name in ("a.c", "a.onnx"):
        export(gp, tmp_path / name)
        export(load(tmp_path / "before.gp"), tmp_path / f"loaded-{name}")
        assert (tmp_path / name).read_bytes() == (tmp_path / f"loaded-{name}").read_bytes()
    gp.save(tmp_path / "after.gp")
    assert (tmp_path / "after.gp").read_bytes() == (tmp_path / "before.gp").read_bytes()


@pytest.mark.parametrize("name", ["m.c", "m.onnx"])
def test_the_command_writes_what_the_function_writes(name, tmp_path):
    X, y = wave(300)
    gp = learned(X, y)
    gp.save(tmp_path / "m.gp")
    outcome = invoke(
        "export", tmp_path / "m.gp", "--to", tmp_path / name, "--dtype", "float32", "--level", "0.8"
    )
    assert outcome.exit_code == 0, outcome.output
    assert "rounding: mean" in outcome.output
    export(gp, tmp_path / f"f-{name}", dtype="float32", interval=0.8)
    assert (tmp_path / name).read_bytes() == (tmp_path / f"f-{name}").read_bytes()
    wrong = invoke("export", tmp_path / "m.gp", "--to", tmp_path / "m.txt")
    assert wrong.exit_code == 2
    assert "must end in .c or .onnx" in wrong.output


def test_the_command_names_the_features_that_it_made_of_columns(tmp_path):
    rows = "".join(f"{'ab'[i % 2]},{i % 7},{(i % 7) + 3 * (i % 2)}\n" for i in range(200))
    (tmp_path / "t.csv").write_text("kind,speed,y\n" + rows)
    arguments = [
        "--target",
        "y",
        "--categorical",
        "kind",
        "--rank",
        10,
        "--save",
        tmp_path / "m.gp",
        "--quiet",
    ]
    outcome = invoke("run", tmp_path / "t.csv", *arguments)
    assert outcome.exit_code == 0, outcome.output
    outcome = invoke("export", tmp_path / "m.gp", "--to", tmp_path / "m.c")
    assert outcome.exit_code == 0, outcome.output
    assert "made of the columns" in outcome.output
    assert "kind" in (tmp_path / "m.c").read_text()
    assert "targets: y" in (tmp_path / "m.c").read_text()
