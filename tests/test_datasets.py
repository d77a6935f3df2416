import numpy as np
import pytest
import scipy.io

from conftest import DATA, real_data
from streamgp import datasets
from streamgp.datasets import _COULOMB, inverse_dynamics, load_abalone, load_arm, load_sarcos
from streamgp.errors import DataError, ParameterError


def test_rows_of_the_arm_do_not_depend_on_the_range_asked_for():
    whole = load_arm(9000, seed=3)
    part = load_arm(700, start=4000, seed=3)
    np.testing.assert_array_equal(part.X, whole.X[4000:4700])
    np.testing.assert_array_equal(part.y, whole.y[4000:4700])
    assert not np.allclose(load_arm(10, seed=4).X, whole.X[:10])


def test_the_arm_has_21_inputs_and_7_torques_with_names():
    arm = load_arm(50)
    assert arm.X.shape == (50, 21)
    assert arm.y.shape == (50, 7)
    assert len(arm.feature_names) == 21
    assert len(arm.target_names) == 7
    assert np.isfinite(arm.X).all()
    assert np.isfinite(arm.y).all()


def test_velocities_and_accelerations_are_the_derivatives_of_positions():
    arm = load_arm(2000)
    q, v, a = arm.X[:, :7], arm.X[:, 7:14], arm.X[:, 14:]
    step = 2 * 0.02
    # Central differences are good to h²/6 of the third derivative: 20 rad/s³ at most here.
    np.testing.assert_allclose((q[2:] - q[:-2]) / step, v[1:-1], atol=2e-3)
    np.testing.assert_allclose((v[2:] - v[:-2]) / step, a[1:-1], atol=1e-2)


def random_motion(n, seed):
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, (n, 7)), rng.standard_normal((n, 7)), rng.standard_normal((n, 7))


def mass_matrix(q):
    """Return M (n, 7, 7); column j is the torque of a unit acceleration of joint j, without gravity."""
    n = len(q)
    rest = inverse_dynamics(q, np.zeros((n, 7)), np.zeros((n, 7)))
    columns = [inverse_dynamics(q, np.zeros((n, 7)), np.tile(e, (n, 1))) - rest for e in np.eye(7)]
    return np.stack(columns, axis=2)


def test_the_mass_matrix_is_symmetric_and_positive_definite():
    M = mass_matrix(random_motion(20, 0)[0])
    np.testing.assert_allclose(M, M.transpose(0, 2, 1), atol=1e-12)
    assert np.linalg.eigvalsh(M).min() > 0


def test_the_work_of_the_torques_equals_the_change_of_energy():
    """Power in = d/dt(½ q̇ᵀM(q)q̇) + power against gravity; involves every term of the dynamics."""
    q, v, a = random_motion(10, 1)
    h = 1e-5
    zero = np.zeros_like(q)

    def kinetic(t):
        moved = q + v * t + a * t * t / 2
        speed = v + a * t
        return 0.5 * np.einsum("ni,nij,nj->n", speed, mass_matrix(moved), speed)

    against_gravity = (inverse_dynamics(q, zero, zero) * v).sum(axis=1)
    power = (inverse_dynamics(q, v, a) * v).sum(axis=1)
    np.testing.assert_allclose(
        power, (kinetic(h) - kinetic(-h)) / (2 * h) + against_gravity, rtol=1e-6, atol=1e-6
    )


def test_gravity_is_conservative():
    q = random_motion(10, 2)[0]
    zero, h = np.zeros_like(q), 1e-6
    jacobian = np.stack(
        [
            (inverse_dynamics(q + h * e, zero, zero) - inverse_dynamics(q - h * e, zero, zero)) / (2 * h)
            for e in np.eye(7)
        ],
        axis=2,
    )
    np.testing.assert_allclose(jacobian, jacobian.transpose(0, 2, 1), atol=1e-6)


def test_a_payload_acts_as_mass_of_the_last_link(monkeypatch):
    q, v, a = random_motion(20, 3)
    light, loaded = inverse_dynamics(q, v, a), inverse_dynamics(q, v, a, payload=2.5)
    # A point of 2.5 kg in the centre of the last link adds to its mass, not to its inertia about the centre.
    before = {n: getattr(datasets, n).copy() for n in ("_MASS", "_CENTRE", "_INERTIA")}
    monkeypatch.setattr(datasets, "_HAND", before["_CENTRE"][-1])
    monkeypatch.setattr(datasets, "_MASS", before["_MASS"] + 2.5 * np.eye(7)[-1])
    heavier = inverse_dynamics(q, v, a)
    monkeypatch.setattr(datasets, "_MASS", before["_MASS"])
    np.testing.assert_allclose(inverse_dynamics(q, v, a, payload=2.5), heavier, rtol=1e-12, atol=1e-12)
    assert np.abs(loaded - light)[:, 1].max() > 10  # newton metres at the shoulder


def test_the_arm_carries_the_payload_it_is_given():
    light, loaded = (load_arm(50, noise=0.0, payload=p) for p in (0.0, 2.0))
    q, v, a = (light.X[:, i : i + 7] for i in (0, 7, 14))
    np.testing.assert_array_equal(light.X, loaded.X)
    carried = inverse_dynamics(q, v, a, 2.0) - inverse_dynamics(q, v, a)
    np.testing.assert_allclose(loaded.y - light.y, carried, atol=1e-10)


def test_the_torque_of_a_payload_at_rest_is_the_gradient_of_its_height():
    q = random_motion(10, 4)[0]
    zero, h = np.zeros_like(q), 1e-6

    def height(q):
        at, turned = np.zeros((len(q), 3)), np.tile(np.eye(3), (len(q), 1, 1))
        for i in range(7):
            twist, along = datasets._TWIST[i], datasets._OFFSET[i]
            at = at + turned @ np.array([0.0, -np.sin(twist) * along, np.cos(twist) * along])
            turned = turned @ datasets._rotation(q[:, i], twist)
        return (at + turned @ datasets._HAND)[:, 2]

    slope = np.stack([(height(q + h * e) - height(q - h * e)) / (2 * h) for e in np.eye(7)], axis=1)
    pull = inverse_dynamics(q, zero, zero, 3.0) - inverse_dynamics(q, zero, zero)
    np.testing.assert_allclose(pull, 3.0 * 9.81 * slope, atol=1e-7)


def test_noise_has_the_given_standard_deviation():
    clean, noisy = load_arm(20000, noise=0.0), load_arm(20000, noise=0.5)
    np.testing.assert_allclose((noisy.y - clean.y).std(axis=0), 0.5 * _COULOMB, rtol=0.03)


def test_faster_sensors_see_the_same_motion():
    slow, fast = load_arm(50, noise=0.0), load_arm(500, noise=0.0, rows_per_second=500)
    np.testing.assert_allclose(fast.X[::10], slow.X, atol=1e-12)
    np.testing.assert_allclose(fast.y[::10], slow.y, atol=1e-9)


@pytest.mark.parametrize(
    "arguments",
    [
        {"n_rows": 0},
        {"start": -1},
        {"noise": -1.0},
        {"payload": -1.0},
        {"seed": -1},
        {"n_rows": 1.5},
        {"rows_per_second": 0.0},
        {"rows_per_second": np.inf},
    ],
)
def test_an_invalid_argument_is_named_in_the_error(arguments):
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        load_arm(**arguments)


def test_abalone_and_sarcos_are_read_from_the_given_folder(monkeypatch):
    real_data("kin40k.npz")  # skips where there is no data
    abalone, sarcos = load_abalone(DATA), load_sarcos(DATA)
    assert abalone.X.shape == (4177, 8)
    assert abalone.y[:3, 0].tolist() == [15.0, 7.0, 9.0]
    assert sarcos.X.shape[1] == 21
    assert sarcos.y.shape[1] == 7
    assert "subset" in sarcos.source
    assert str(DATA) not in abalone.source + sarcos.source
    monkeypatch.setenv("STREAMGP_DATA", str(DATA))
    assert (load_abalone().X == abalone.X).all()


def test_a_file_that_is_not_the_data_is_refused(tmp_path):
    (tmp_path / "abalone.data").write_text("M,1,2,3,4,5,6,7,8\n")
    with pytest.raises(DataError, match="sha256"):
        load_abalone(tmp_path)
    (tmp_path / "sarcos_inv.mat").write_bytes(b"not a mat file")
    with pytest.raises(DataError, match="cannot be read"):
        load_sarcos(tmp_path)
    scipy.io.savemat(tmp_path / "sarcos_inv.mat", {"sarcos_inv": np.zeros((100, 28))})
    with pytest.raises(DataError, match="not the published"):
        load_sarcos(tmp_path)
    scipy.io.savemat(tmp_path / "sarcos_inv_test.mat", {"sarcos_inv_test": np.zeros((4449, 28))})
    assert load_sarcos(tmp_path, part="test").y.shape == (4449, 7)
    with pytest.raises(ParameterError, match="'train' or 'test'"):
        load_sarcos(tmp_path, part="both")
    np.savez(tmp_path / "sarcos_subset.npz", X=np.zeros((5, 3)), Y=np.zeros((5, 7)))
    (tmp_path / "sarcos_inv.mat").unlink()
    with pytest.raises(DataError, match="21 and 7"):
        load_sarcos(tmp_path)


def test_the_error_for_a_missing_file_names_it(tmp_path):
    for load, name in ((load_abalone, "abalone.data"), (load_sarcos, "sarcos_inv.mat")):
        with pytest.raises(DataError, match=name):
            load(tmp_path)
