"""Data sets: Abalone, the Sarcos arm, and a simulated arm with seven joints.

References: Nash et al., Abalone, UCI Machine Learning Repository (1995), doi 10.24432/C55C7W. Rasmussen &
Williams, Gaussian Processes for Machine Learning (2006), data of section 2.5. Craig, Introduction to Robotics
(2005), section 6.5 (recursive Newton–Euler).
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Literal
from zipfile import BadZipFile

import numpy as np
import scipy.io

from .errors import DataError, ParameterError

N_JOINTS = 7


@dataclass(frozen=True)
class Dataset:
    """Inputs X (n, d), targets y (n, q), their names, and their source."""

    X: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    source: str


# Addresses of the originals, and the sha256 of the file.
_ABALONE = "https://archive.ics.uci.edu/ml/machine-learning-databases/abalone/abalone.data"
_ABALONE_SHA256 = "de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f"
_SARCOS = "https://gaussianprocess.org/gpml/data/"
# We do not know the sha256 of sarcos_inv.mat, but its shape and the mean torques of every tenth row.
_SARCOS_SHAPES = {"train": (44484, 28), "test": (4449, 28)}
_SARCOS_MEANS = (13.692, -24.354, 11.359, 27.475, -0.794, -0.781, 4.163)
_FOLDER = "STREAMGP_DATA"
_SEXES = {"M": 0.0, "F": 1.0, "I": 2.0}


def load_abalone(folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Return the 4,177 abalones of UCI: sex as 0, 1, 2 (male, female, infant), seven sizes and weights; rings.

    Parameters
    ----------
    folder : path, optional
        Folder of `abalone.data`. Default: the folder in the environment variable STREAMGP_DATA; without that the file
        is downloaded and cached.
    """
    path, source = _find(("abalone.data",), folder, _ABALONE, _ABALONE_SHA256)
    if hashlib.sha256(path.read_bytes()).hexdigest() != _ABALONE_SHA256:
        raise DataError(
            f"{path} is not UCI's abalone.data: its sha256 is not {_ABALONE_SHA256}; download {_ABALONE}"
        )
    rows = [line.split(",") for line in path.read_text().split()]
    table = np.array([[_SEXES[row[0]], *map(float, row[1:])] for row in rows])
    names = ("sex", "length", "diameter", "height", "whole", "shucked", "viscera", "shell")
    return Dataset(table[:, :-1], table[:, -1:], names, ("rings",), source)


def load_sarcos(
    folder: str | os.PathLike[str] | None = None, *, part: Literal["train", "test"] = "train"
) -> Dataset:
    """Return the Sarcos arm in time order: positions, velocities and accelerations of 7 joints; 7 torques.

    Parameters
    ----------
    folder : path, optional
        Folder of `sarcos_inv.mat`, or of `sarcos_subset.npz` (X, Y: some of its rows). Default: the folder in the
        environment variable STREAMGP_DATA; without that `sarcos_inv.mat` is downloaded and cached.
    part : {"train", "test"}
        "test" is `sarcos_inv_test.mat`. Nearly all its rows are in `sarcos_inv.mat` too, so it is no test of a model
        that has learned that.
    """
    if part not in _SARCOS_SHAPES:
        raise ParameterError(f"part={part!r} must be 'train' or 'test'")
    variable = "sarcos_inv" if part == "train" else "sarcos_inv_test"
    names = (f"{variable}.mat", "sarcos_subset.npz") if part == "train" else (f"{variable}.mat",)
    path, source = _find(names, folder, f"{_SARCOS}{variable}.mat", None)
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as data:
                X, y = data["X"].astype(np.float64), data["Y"].astype(np.float64)
        else:
            table = scipy.io.loadmat(path)[variable].astype(np.float64)
            X, y = table[:, :21], table[:, 21:]
    except (ValueError, KeyError, OSError, TypeError, BadZipFile, scipy.io.matlab.MatReadError) as error:
        raise DataError(f"{path} cannot be read as the Sarcos data: {error}") from error
    if X.shape[1:] != (21,) or y.shape != (X.shape[0], 7):
        raise DataError(
            f"{path} has inputs {X.shape} and torques {y.shape}; the Sarcos data has 21 and 7 columns"
        )
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise DataError(f"{path} contains NaN or infinity; it is damaged, download it again")
    if path.suffix == ".mat":
        same = table.shape == _SARCOS_SHAPES[part]
        if part == "train":
            same = same and np.allclose(y[::10].mean(axis=0), _SARCOS_MEANS, atol=1e-2)
        if not same:
            raise DataError(f"{path} is not the published {path.name}: its shape or its torques differ")
    else:
        source += f", a subset of {X.shape[0]} rows"
    return Dataset(X, y, _arm_names(), tuple(f"torque_{i + 1}" for i in range(N_JOINTS)), source)


def _arm_names() -> tuple[str, ...]:
    kinds = ("position", "velocity", "acceleration")
    return tuple(f"{kind}_{i + 1}" for kind in kinds for i in range(N_JOINTS))


def _find(
    names: tuple[str, ...], folder: str | os.PathLike[str] | None, url: str, sha256: str | None
) -> tuple[Path, str]:
    """Return the path of the first of these files that exists, and a description of its source."""
    given = folder if folder is not None else os.environ.get(_FOLDER)
    if given:
        for name in names:
            if (Path(given) / name).is_file():
                return Path(given) / name, f"{name} from the given folder"
        named = "" if folder is not None else f" (from {_FOLDER})"
        raise DataError(f"{' or '.join(names)} is not in {given}{named}; download it from {url}")
    remedy = f"download {url} into a folder and pass that with --data or {_FOLDER}"
    try:
        import pooch
    except ImportError as error:
        raise DataError(
            f"{names[0]} is missing, and downloading it needs pooch: pip install 'streamgp[data]', or {remedy}"
        ) from error
    try:
        cached = pooch.retrieve(
            url,
            None if sha256 is None else f"sha256:{sha256}",
            names[0],
            pooch.os_cache("streamgp"),
            progressbar=False,
        )
    except Exception as error:  # networks fail in many ways
        raise DataError(f"{names[0]} could not be downloaded ({error}); {remedy}") from error
    return Path(cached), url


# The arm: an anthropomorphic 7R chain in Craig's modified Denavit–Hartenberg form, every a = 0.
_TWIST = np.array([0.0, 1, -1, -1, 1, 1, -1]) * np.pi / 2
_OFFSET = np.array([0.34, 0.0, 0.40, 0.0, 0.40, 0.0, 0.126])  # metres along each joint's axis
_MASS = np.array([4.0, 4.0, 3.0, 2.7, 1.7, 1.8, 0.6])
_CENTRE = np.array(
    [
        [0.0, -0.03, -0.12],
        [0.0, 0.06, 0.04],
        [0.0, 0.03, -0.13],
        [0.0, -0.07, 0.03],
        [0.0, -0.02, -0.08],
        [0.0, 0.01, 0.02],
        [0.01, 0.0, 0.05],
    ]
)
_INERTIA = np.array(
    [
        [0.10, 0.09, 0.02],
        [0.05, 0.02, 0.04],
        [0.08, 0.07, 0.01],
        [0.03, 0.01, 0.03],
        [0.02, 0.018, 0.005],
        [0.005, 0.004, 0.004],
        [0.001, 0.001, 0.001],
    ]
)
_HAND = np.array([0.02, 0.0, 0.15])  # position of the payload in the last frame
_VISCOUS = np.array([0.8, 0.8, 0.5, 0.5, 0.2, 0.2, 0.1])
_COULOMB = np.array([1.0, 1.0, 0.7, 0.7, 0.3, 0.3, 0.15])
_GRAVITY = 9.81
# Noise is drawn in blocks, so that any range of rows can be generated without the rows before it.
_NOISE_BLOCK = 4096


def inverse_dynamics(
    q: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray, payload: float = 0.0
) -> np.ndarray:
    """Return the rigid-body torques (n, 7) of joint positions, velocities and accelerations, each (n, 7).

    In radians, seconds and newton metres; `payload` is a point mass in the hand, in kilograms.
    """
    n = q.shape[0]
    rotations = [_rotation(q[:, i], _TWIST[i]) for i in range(N_JOINTS)]
    # The origin of frame i in frame i − 1.
    origins = [np.array([0.0, -np.sin(a) * d, np.cos(a) * d]) for a, d in zip(_TWIST, _OFFSET, strict=True)]
    axis = np.array([0.0, 0.0, 1.0])
    # Angular velocity and acceleration of a frame, and the acceleration of its origin, in the frame itself.
    omega, alpha = np.zeros((n, 3)), np.zeros((n, 3))
    linear = np.tile([0.0, 0.0, _GRAVITY], (n, 1))  # gravity, as an upward acceleration of the base
    forces, moments = [], []
    for i in range(N_JOINTS):
        into = rotations[i].transpose(0, 2, 1)
        linear = _apply(
            into, np.cross(alpha, origins[i]) + np.cross(omega, np.cross(omega, origins[i])) + linear
        )
        inherited = _apply(into, omega)
        own = velocity[:, i : i + 1] * axis
        alpha = _apply(into, alpha) + np.cross(inherited, own) + acceleration[:, i : i + 1] * axis
        omega = inherited + own
        centre = np.cross(alpha, _CENTRE[i]) + np.cross(omega, np.cross(omega, _CENTRE[i])) + linear
        forces.append(_MASS[i] * centre)
        moments.append(_INERTIA[i] * alpha + np.cross(omega, _INERTIA[i] * omega))
    held = payload * (np.cross(alpha, _HAND) + np.cross(omega, np.cross(omega, _HAND)) + linear)
    forces[-1] = forces[-1] + held
    moments[-1] = moments[-1] + np.cross(_HAND - _CENTRE[-1], held)
    torques = np.empty((n, N_JOINTS))
    force, moment = np.zeros((n, 3)), np.zeros((n, 3))
    for i in reversed(range(N_JOINTS)):
        if i < N_JOINTS - 1:
            force = _apply(rotations[i + 1], force)
            moment = _apply(rotations[i + 1], moment) + np.cross(origins[i + 1], force)
        moment = moment + moments[i] + np.cross(_CENTRE[i], forces[i])
        force = force + forces[i]
        torques[:, i] = moment[:, 2]
    return torques


def _rotation(angle: np.ndarray, twist: float) -> np.ndarray:
    """Return the rotation (n, 3, 3) from frame i to frame i − 1."""
    c, s, ca, sa = np.cos(angle), np.sin(angle), np.cos(twist), np.sin(twist)
    zero = np.zeros_like(c)
    rows = [[c, -s, zero], [s * ca, c * ca, zero - sa], [s * sa, c * sa, zero + ca]]
    return np.array(rows).transpose(2, 0, 1)


def _apply(rotation: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return the rotated vectors (n, 3)."""
    out: np.ndarray = np.einsum("nij,nj->ni", rotation, vectors)
    return out


def _motion(time: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return joint positions, velocities and accelerations, each (n, 7).

    Sums of four sines that the joints share, as in a drawing task, with frequencies that do not repeat together.
    """
    rng = np.random.default_rng([seed, 7])
    waves = 4
    frequency = 2 * np.pi * np.geomspace(0.05, 0.5, waves)[:, None] * rng.uniform(0.8, 1.2, (waves, 1))
    size = rng.uniform(0.3, 1.0, (waves, N_JOINTS)) / np.sqrt(frequency)
    size *= 0.8 / np.sqrt((size**2).sum(axis=0))
    phase = rng.uniform(0, 2 * np.pi, (waves, N_JOINTS))
    angle = time[:, None, None] * frequency + phase
    sine, cosine = np.sin(angle), np.cos(angle)
    return (
        (size * sine).sum(axis=1),
        (size * frequency * cosine).sum(axis=1),
        (-size * frequency**2 * sine).sum(axis=1),
    )


def load_arm(
    n_rows: int = 10_000,
    *,
    start: int = 0,
    noise: float = 0.2,
    payload: float = 0.0,
    seed: int = 0,
    rows_per_second: float = 50.0,
) -> Dataset:
    """Return a simulated arm with seven joints: 21 inputs, 7 torques with friction and noise.

    A row depends on its number and the seed only, not on the range of rows that is asked for.

    Parameters
    ----------
    n_rows, start : int
        Rows `start` to `start + n_rows` of an unbounded trajectory.
    noise : float
        Standard deviation of the torque sensors, as a multiple of each joint's Coulomb friction.
    payload : float
        Kilograms in the hand.
    seed : int
        Seed of the trajectory and of the noise.
    rows_per_second : float
        How often the sensors of the arm are read.
    """
    for name, value, low in (("n_rows", n_rows, 1), ("start", start, 0), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or value < low:
            raise ParameterError(f"{name}={value!r} must be a whole number, {low} or more")
    for name, amount in (("noise", noise), ("payload", payload)):
        if not isinstance(amount, Real) or not 0 <= amount < np.inf:
            raise ParameterError(f"{name}={amount!r} must be a finite number, 0 or more")
    if not isinstance(rows_per_second, Real) or not 0 < rows_per_second < np.inf:
        raise ParameterError(f"rows_per_second={rows_per_second!r} must be a number above 0, such as 500")
    rows = np.arange(start, start + n_rows)
    q, velocity, acceleration = _motion(rows * (1.0 / rows_per_second), seed)
    friction = _VISCOUS * velocity + _COULOMB * np.tanh(velocity / 0.1)
    torques = inverse_dynamics(q, velocity, acceleration, payload) + friction
    torques += noise * _COULOMB * _noise(rows, seed)
    return Dataset(
        np.hstack([q, velocity, acceleration]),
        torques,
        _arm_names(),
        tuple(f"torque_{i + 1}" for i in range(N_JOINTS)),
        f"simulated seven-joint arm, seed {seed}, rows {start} to {start + n_rows}",
    )


def _noise(rows: np.ndarray, seed: int) -> np.ndarray:
    """Return standard normal noise (n, 7) for consecutive row numbers (n,)."""
    first, last = rows[0] // _NOISE_BLOCK, rows[-1] // _NOISE_BLOCK
    blocks = [
        np.random.default_rng([seed, 11, int(b)]).standard_normal((_NOISE_BLOCK, N_JOINTS))
        for b in range(first, last + 1)
    ]
    begin = rows[0] - first * _NOISE_BLOCK
    return np.concatenate(blocks)[begin : begin + len(rows)]
