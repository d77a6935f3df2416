"""StreamingGPClassifier: scikit-learn's contract, honest probabilities, classes that come later."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from streamgp import StreamingGPClassifier, StreamingGPRegressor, kernels, load
from streamgp.checkpoint import write
from streamgp.errors import CheckpointError, InputError, ParameterError

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (600, 2))
LOGIT = 3 * np.sin(2 * X[:, 0]) + 2 * X[:, 1]
SHARE = 1 / (1 + np.exp(-LOGIT))
Y = (RNG.uniform(size=600) < SHARE).astype(int)
# Three classes that the angle decides, and names that are not in the order in which they come.
THREE = np.array(["west", "east", "north"])[
    np.digitize(np.arctan2(X[:, 1], X[:, 0]) + 0.1 * RNG.standard_normal(600), [-1, 1])
]
KERNEL = 4.0 * kernels.SquaredExponential([0.8, 1.5]) + kernels.Constant(2.0)


def model(**more):
    return StreamingGPClassifier(**({"rank": 60, "random_state": 0} | more))


def stream(gp, y, size=100, end=400, classes=None):
    for i in range(0, end, size):
        gp.partial_fit(X[i : i + size], y[i : i + size], classes=classes)
    return gp


@pytest.fixture(scope="module")
def binary():
    return stream(model(), Y)


@pytest.fixture(scope="module")
def ternary():
    return stream(model(), THREE)


@parametrize_with_checks(
    [StreamingGPClassifier(tune="none", rank=20, random_state=0)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": "the units of the kernel come from rows, repeated or not"
    },
)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [StreamingGPClassifier(kernels.SquaredExponential(3.0), tune="none", random_state=0)]
    + [
        StreamingGPRegressor(
            kernels.SquaredExponential(3.0), likelihood=name, tune="none", guard=None, random_state=0
        )
        for name in ("poisson", "negative_binomial")
    ]
)
def test_weights_are_repeated_rows_to_scikit_learn_where_the_kernel_is_given(estimator, check):
    if "sample_weight" in check.func.__name__:
        check(estimator)


def test_probabilities_are_those_of_the_classes(binary):
    shares = binary.predict_proba(X[400:])
    assert np.allclose(shares.sum(axis=1), 1)
    assert np.abs(shares[:, 1] - SHARE[400:]).mean() < 0.1
    # The log loss of the true probabilities, and what 400 labels cannot tell.
    assert log_loss(Y[400:], shares) < log_loss(Y[400:], SHARE[400:]) + 0.05
    assert binary.classes_.tolist() == [0, 1]
    assert binary.score(X[400:], Y[400:]) > 0.8


def test_the_predicted_class_is_as_often_right_as_it_is_probable(binary, ternary):
    for gp, y in ((binary, Y), (ternary, THREE)):
        shares = gp.predict_proba(X[400:])
        right = gp.predict(X[400:]) == y[400:]
        # Of 200 rows the share that is right has a deviation of 0.03.
        assert abs(shares.max(axis=1).mean() - right.mean()) < 0.09


def test_classes_are_sorted_and_may_be_texts(ternary):
    assert ternary.classes_.tolist() == ["east", "north", "west"]
    assert ternary.predict(X[:3]).dtype.kind == "U"
    assert ternary.score(X[400:], THREE[400:]) > 0.9


def test_far_from_all_rows_the_classes_are_as_frequent_as_a_constant_says():
    gp = model(kernel=4.0 * kernels.SquaredExponential([0.8, 1.5]), tune="none").fit(X, Y)
    far = gp.predict_proba([[100.0, 100.0]])[0]
    # The level is the logit of the share of ones; what is unsure of it draws to a half.
    assert abs(far[1] - Y.mean()) < abs(far[1] - 0.9)
    assert 0.4 < far[1] < 0.7


def test_labels_with_their_names_exchanged_have_the_probabilities_exchanged():
    given = {"kernel": KERNEL, "tune": "none"}
    one, other = stream(model(**given), Y), stream(model(**given), 1 - Y)
    assert np.allclose(one.predict_proba(X), other.predict_proba(X)[:, ::-1], atol=1e-6)


def test_all_classes_may_be_given_before_they_come_and_then_no_other():
    gp = model().partial_fit(X[:50], Y[:50], classes=[0, 1, 2])
    assert gp.predict_proba(X[:2]).shape == (2, 3)
    assert gp.predict_proba(X)[:, 2].max() < 0.2
    for call in (
        lambda: gp.partial_fit(X[:1], [3]),
        lambda: gp.partial_fit(X[:1], [1], classes=[0, 1]),
        lambda: model().partial_fit(X[:2], [0, 5], classes=[0, 1]),
    ):
        with pytest.raises(InputError, match="classes"):
            call()
    assert gp.n_samples_seen_ == 50


@pytest.mark.parametrize("order", [["b", "a", "c"], ["a", "b", "c"], ["c", "b", "a"]])
def test_classes_that_come_later_are_learned_as_if_known_from_the_start(order):
    """All rows are in the sample, so that only the order of sites differs."""
    y = np.array(order)[np.digitize(X[:, 0], [-0.5, 0.5])]
    rows = np.argsort(np.digitize(X[:240, 0], [-0.5, 0.5]), kind="stable")  # one class after the other
    given = {"kernel": KERNEL, "tune": "none"}
    late, known = model(**given), model(**given)
    for i in range(0, 240, 20):
        part = rows[i : i + 20]
        late.partial_fit(X[part], y[part])
        known.partial_fit(X[part], y[part], classes=["a", "b", "c"])
    assert late.classes_.tolist() == ["a", "b", "c"]
    assert late.score(X[240:], y[240:]) > 0.9
    assert (late.predict(X) == known.predict(X)).mean() > 0.95
    assert np.abs(late.predict_proba(X) - known.predict_proba(X)).mean() < 0.05


def test_one_class_is_certain_until_another_comes():
    gp = model().partial_fit(X[:10], np.zeros(10, dtype=int))
    assert (gp.predict_proba(X[:5]) == 1).all()
    assert gp.predict_proba(X[:5]).shape == (5, 1)
    gp.partial_fit(X[10:60], Y[10:60])
    assert gp.predict_proba(X[:5]).shape == (5, 2)


def test_a_new_class_is_tuned_on_soon():
    gp = model()
    gp.partial_fit(X[:200], np.where(THREE[:200] == "north", "east", THREE[:200]))
    tuned = []
    for i in range(200, 300, 10):
        gp.partial_fit(X[i : i + 10], THREE[i : i + 10])
        tuned += [gp.n_samples_seen_] if gp.tuning_ is not None else []
    assert tuned[:1] == [250]


@pytest.mark.parametrize("kind", ["binary", "ternary"])
def test_what_was_saved_or_copied_goes_on_bit_for_bit(kind, request, tmp_path):
    gp, y = copy.deepcopy(request.getfixturevalue(kind)), Y if kind == "binary" else THREE
    gp.save(tmp_path / "model.gp")
    others = [load(tmp_path / "model.gp"), pickle.loads(pickle.dumps(gp)), copy.deepcopy(gp)]
    assert others[0].get_params() == gp.get_params()
    for each in [gp, *others]:
        for i in range(400, 420):
            each.partial_fit(X[i : i + 1], y[i : i + 1])
        each.partial_fit(X[420:500], y[420:500])
    for each in others:
        assert (each.predict_proba(X) == gp.predict_proba(X)).all()
        assert each.classes_.tolist() == gp.classes_.tolist()


def test_a_file_without_a_classifier_is_refused(tmp_path):
    write(tmp_path / "model.gp", {"classifier": 1, "arguments": {}})
    with pytest.raises(CheckpointError, match="does not hold a classifier"):
        load(tmp_path / "model.gp")
    StreamingGPRegressor(tune="none").fit(X[:60], LOGIT[:60]).save(tmp_path / "other.gp")
    assert isinstance(load(tmp_path / "other.gp"), StreamingGPRegressor)


def test_a_batch_that_is_refused_changes_nothing(binary):
    gp = copy.deepcopy(binary)
    learner = gp.learner_
    for rows, y in (
        (X[:2], [0]),
        (X[:2] * np.nan, [0, 1]),
        (X[:2, :1], [0, 1]),
        (X[:2], [0.5, 1.5]),
        (X[:2], None),
    ):
        with pytest.raises(InputError):
            gp.partial_fit(rows, y)
    assert gp.learner_ is learner
    fresh = model()
    with pytest.raises(InputError):
        fresh.partial_fit(X[:2] * np.inf, [0, 1])
    assert set(vars(fresh)) == set(fresh.get_params())
    assert not hasattr(fresh, "classes_")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"rank": 0}, "rank=0 must be"),
        ({"tune": "hybrid"}, "use 'doubling'"),
        ({"tune": "never"}, "tune='never' must be one of"),
        ({"memory_rows": 10, "forgetting": 0.9}, "say the same thing"),
        ({"kernel": kernels.SquaredExponential(1.0) + kernels.White(1.0)}, "leave White out"),
    ],
)
def test_an_argument_out_of_range_is_refused(more, words):
    with pytest.raises(ParameterError, match=words):
        model(**more).fit(X, Y)


@pytest.mark.parametrize("y", [Y, THREE], ids=["binary", "ternary"])
def test_a_row_of_weight_two_is_two_equal_rows_and_of_weight_zero_none(y):
    given = {"kernel": KERNEL, "tune": "none"}
    weights = np.array([2.0, 1.0, 0.0] * 20)
    weighted = model(**given).partial_fit(X[:60], y[:60], np.unique(y), weights)
    rows = np.repeat(np.arange(60), weights.astype(int))
    repeated = model(**given).partial_fit(X[rows], y[rows], np.unique(y))
    assert np.abs(weighted.predict_proba(X) - repeated.predict_proba(X)).max() < 0.02
    for gp in (weighted, repeated):
        gp.partial_fit(X[60:70], y[60:70], sample_weight=np.ones(10) if gp is repeated else 1.0)
    assert np.abs(weighted.predict_proba(X) - repeated.predict_proba(X)).max() < 0.02
    plain = model(**given).partial_fit(X[:60], y[:60], np.unique(y))
    assert np.abs(weighted.predict_proba(X) - plain.predict_proba(X)).max() > 0.03


def test_what_is_forgotten_is_no_longer_predicted():
    gp = model(memory_rows=60, tune="none", kernel=KERNEL)
    stream(gp, Y)
    stream(gp, 1 - Y)
    assert gp.score(X, 1 - Y) > 0.75


def test_rows_in_single_precision_are_learned_as_such():
    gp = model(tune="none", kernel=KERNEL).fit(X[:200].astype(np.float32), Y[:200])
    wide = model(tune="none", kernel=KERNEL).fit(X[:200], Y[:200])
    assert gp.pivots_.dtype == np.float32
    assert np.abs(gp.predict_proba(X.astype(np.float32)) - wide.predict_proba(X)).max() < 0.02
