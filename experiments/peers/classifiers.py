"""Classification against scikit-learn's Gaussian process and River's classifiers, on sets that ship with these.

    python -m experiments.peers.classifiers [SET ...]

A set of scikit-learn: two thirds of the rows, shuffled, at most 600, are learned, the rest predicted. A set of River:
each row is predicted, then learned. Prints error, log loss, how much surer than right the predicted class is on
average, and seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn import datasets as shipped
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.common import command, parts_argument
from streamgp import StreamingGPClassifier

SPLIT = {"cancer": shipped.load_breast_cancer, "wine": shipped.load_wine, "digits": shipped.load_digits}
STREAMS = ("Phishing", "Bananas", "ImageSegments")
# The most rows of a set of scikit-learn that are learned: its own Gaussian process is O(n³).
MOST = 600
# Rows of a batch of scikit-learn's sets, and of River's where several are learned at once.
BATCH = 100
# Probabilities are at least this, as a model that is sure and wrong has no finite log loss.
LEAST = 1e-15


def split_models(n_features: int) -> dict[str, Callable[[], Any]]:
    """Return what is compared on a set of scikit-learn; its own starts at a length-scale at which rows are alike."""
    kernel = 1.0 * RBF(n_features**0.5)
    return {
        "StreamingGPClassifier": lambda: StreamingGPClassifier(random_state=0),
        "GaussianProcessClassifier": lambda: make_pipeline(
            StandardScaler(), GaussianProcessClassifier(kernel, random_state=0)
        ),
        "LogisticRegression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    }


def on_split(name: str) -> None:
    """Print a row for each model on a set of scikit-learn."""
    X, y = SPLIT[name](return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    n = min(2 * len(y) // 3, MOST)
    learned, held = order[:n], order[n:]
    for label, make in split_models(X.shape[1]).items():
        model, began = make(), time.perf_counter()
        if isinstance(model, StreamingGPClassifier):
            for i in range(0, learned.size, BATCH):
                rows = learned[i : i + BATCH]
                model.partial_fit(X[rows], y[rows], classes=np.unique(y))
        else:
            model.fit(X[learned], y[learned])
        shares = model.predict_proba(X[held])
        report(name, label, shares, y[held], time.perf_counter() - began)


def stream_models() -> dict[str, Callable[[], Any]]:
    """Return what is compared on a stream of River."""
    from river import forest, linear_model, multiclass, naive_bayes, neighbors, preprocessing, tree

    from streamgp.adapters.river import GPClassifier

    def scaled(model: Any) -> Any:
        return preprocessing.StandardScaler() | model

    return {
        "GPClassifier": lambda: GPClassifier(rank=200, seed=0),
        "LogisticRegression": lambda: scaled(
            multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
        ),
        "GaussianNB": naive_bayes.GaussianNB,
        "KNNClassifier": lambda: scaled(neighbors.KNNClassifier(n_neighbors=5)),
        "HoeffdingTreeClassifier": tree.HoeffdingTreeClassifier,
        "ARFClassifier": lambda: forest.ARFClassifier(seed=0),
    }


def on_stream(name: str) -> None:
    """Print a row for each model on a stream of River, row by row, and for batches."""
    from river import datasets

    rows = list(getattr(datasets, name)())
    classes = sorted({y for _, y in rows})
    at = {label: j for j, label in enumerate(classes)}
    labels = np.array([at[y] for _, y in rows])
    for label, make in stream_models().items():
        model, shares, began = make(), np.zeros((len(rows), len(classes))), time.perf_counter()
        for i, (x, y) in enumerate(rows):
            for known, share in model.predict_proba_one(x).items():
                shares[i, at[known]] = share
            model.learn_one(x, y)
        report(name, label, shares, labels, time.perf_counter() - began)
    X = np.array([[float(v) for v in x.values()] for x, _ in rows])
    shares, began = np.zeros((len(rows), len(classes))), time.perf_counter()
    gp = StreamingGPClassifier(rank=200, random_state=0)
    for part in batches(len(rows)):
        if part.start:
            shares[part] = gp.predict_proba(X[part])
        gp.partial_fit(X[part], labels[part], classes=range(len(classes)))
    report(name, f"StreamingGPClassifier, {BATCH} rows at once", shares, labels, time.perf_counter() - began)


def batches(n: int) -> Iterator[slice]:
    """Yield slices of BATCH rows."""
    return (slice(i, min(i + BATCH, n)) for i in range(0, n, BATCH))


def report(name: str, label: str, shares: np.ndarray, y: np.ndarray, seconds: float) -> None:
    """Print a row: of rows that a model said nothing of, all classes are equally probable."""
    shares = np.where(shares.sum(axis=1, keepdims=True) > 0, shares, 1.0)
    shares = np.maximum(shares / shares.sum(axis=1, keepdims=True), LEAST)
    shares /= shares.sum(axis=1, keepdims=True)
    wrong = float((shares.argmax(axis=1) != y).mean())
    loss, surer = (
        log_loss(y, shares, labels=range(shares.shape[1])),
        float(shares.max(axis=1).mean()) - (1 - wrong),
    )
    print(f"| {name} | {label} | {wrong:.2%} | {loss:.3f} | {surer:+.3f} | {seconds:.1f} |", flush=True)


@command(__doc__)
@parts_argument([*SPLIT, *STREAMS])
def main(parts: tuple[str, ...]) -> None:
    """Print the table of each set."""
    print("| set | model | error | log loss | surer than right | s |\n|---|---|---|---|---|---|")
    for name in parts:
        (on_split if name in SPLIT else on_stream)(name)


if __name__ == "__main__":
    main()
