"""StreamingGPRegressor: scikit-learn's contract; checks what it is given and commits by one assignment."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state

from . import checkpoint, dask, latent, merging
from ._arrays import one_blas_thread, to_host
from .answers import (
    Question,
    SampledFunction,
    answer,
    as_learned,
    draw_samples,
    gradient,
    sampled_function,
)
from .checks import check_batch, check_rows, seed_of
from .choosing import chosen_again
from .errors import CheckpointError, InputError, InputTypeError
from .filling import aligned
from .latent import LatentLearner
from .latent_answers import reply, samples
from .learned import LearnedAttributes, gaussian, undefined
from .learner import Learner, begin
from .locking import writing
from .means import without_mean
from .online.answered import AnswerMemory, Answers, scoring
from .online.choice import OpenChoice
from .parameters import DECLARED, GAUSSIAN, Settings
from .transforms import first_transform, refuse


class StreamingGPRegressor(LearnedAttributes, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression that learns batch by batch.

    An argument that the method does not use is refused unless it is left at its default.

    Parameters
    ----------
    kernel : kernel of streamgp.kernels or sklearn.gaussian_process.kernels, or str
        The prior covariance where tuning starts, in the units of X and y, of a function of mean zero. "auto": one of
        "squared_exponential", "matern12", "matern32", "matern52" and "rational_quadratic", which fix the family, plus
        a constant and a linear trend; family, units and hyperparameters come from a sample of all rows seen, anew at
        each tuning, so that units do not matter. "dictionary": a sum of eight squared exponentials, from 1/32 of the
        default length-scales to four times, of which only the weights are tuned.
    method : {"pivoted", "srmf", "brmf", "nrmf", "rgp"}
        "pivoted": Nyström features of inducing points that are chosen from the stream and change with it; a batch
        costs the same however many rows have passed. "srmf": sequential randomized eigendecomposition, O(n·rank) a
        batch. "brmf": the same from scratch at each batch, O(n²·rank). "nrmf": exact, O(n²). "rgp": Huber's
        recursive GP on fixed inducing points, independent of n.
    likelihood : {"gaussian", "student", "poisson", "negative_binomial"}
        The distribution of y about the function. "student": noise with rare large errors. "poisson", and
        "negative_binomial" for counts that vary more: y are whole numbers, of expectation exp of the function. Its
        parameters (`likelihood_`) are tuned with the kernel; docs/likelihoods.md says what of the other arguments
        applies (pivoted, NumPy arrays).
    rank : int or "auto"
        The most features (inducing points or eigenpairs) that are kept (all but nrmf). "auto": so many pivots
        that what they leave unexplained is small beside the noise, at most `max_rank` (pivoted).
    max_rank, tolerance : int, float
        The upper bound of rank="auto", and the share of the noise variance that it may leave, tr(K − K̂)/n.
    oversampling : int
        Extra random directions while the range of a matrix is sought (srmf, brmf).
    noise : float or "auto"
        Variance of the noise on y, of all outputs, held as given. "auto": of each output. It starts at the white noise
        in `kernel`, or at a tenth of the variance of y in the first rows, and is tuned with the kernel; with
        tune="none", pivoted estimates it from its errors. With fewer than 50 rows it is estimated from them.
    tune : {"doubling", "initial", "hybrid", "continuous", "none"}
        When hyperparameters are tuned: whenever the number of rows has doubled or, with `forgetting`, half of the
        effective rows are new; at the first `initial_batches` batches; at every batch; never. For srmf and brmf the
        weights of a kernel that is affine in them (the distance polynomials, WeightedSum) are tuned from a factor of
        each part, without touching a row; "hybrid" then uses the kernel's own factor after the first batches, as
        the paper does. Every other hyperparameter is tuned on a sample of 500 rows.
    objective : {"evidence", "loo", "training_error"}
        What tuning maximises: the log evidence, the leave-one-out density, or minus the error on the rows learned
        (the paper's; it leaves the noise alone).
    initial_batches : int
        How many batches tune="initial" tunes at.
    bounds : (low, high)
        Hyperparameters stay between these multiples of where they started.
    forgetting, memory_rows : float or "auto", float or None
        What the past is multiplied by at each `partial_fit`, 1 to remember all (pivoted, rgp; from the second
        batch on, and for rgp from when its inducing points are complete); or the number of rows after which the
        weight of a row is 1/e, however they are batched. "auto": as much of the past is given up as the last rows
        contradict (pivoted, if neither kernel nor noise is given); on a stationary stream nothing.
    memory : {"bounded", "rows"}
        The rows that new pivots learn from: the last 500, or all (pivoted).
    variant : {"projected", "literal"}
        "literal": the paper's algorithms as printed (srmf, brmf); errors grow like 1/noise where the rank is short.
    refactor : bool
        Factor from scratch at each batch (nrmf), as the paper does.
    basis : array (m, d), optional
        The inducing points of rgp, of which at most `rank` are used. By default `rank` rows of the first batch,
        or of the first `rank` rows where batches are smaller, drawn by residual variance.
    guard : "auto", float or None
        Rows not to learn; None learns all. "auto": rare ones whose target lies five times as far from its prediction
        as the 95 % interval reaches, or whose inputs are absurd; where half of 20 rows in a row do, all are learned.
        A number: inputs so many standard deviations from the mean, or targets so many of the prior's from prediction.
    mixed_precision : bool
        For float32 data, sum the products of a batch in float32 and only the batches in float64 (pivoted). Slightly
        faster on a GPU whose tensor cores are allowed for float32; the noise must stay above their rounding.
    missing : {"impute", "raise"}
        Features that are missing, NaN, in NumPy arrays and frames. "impute": taken as their mean given the features
        that are there, by the moments of all rows so far; intervals are wider by what they might have been. A row that
        lacks all is answered with the prior, and not learned. "raise": such a batch is refused.
    target_transform : {"log", "sqrt", "logit", "auto"} or None
        What is learned in the place of y: log(y + c), c a hundredth of the first rows' median, or √y, for targets of 0
        or more; logit y, for shares between 0 and 1. Predictions, standard deviations and intervals are in the units of
        y and never outside its range; `predict` gives the median. A kernel and a noise that are given are those of the
        transformed targets, and so are `noise_`, `y_offset_`, `y_scale_` and the log evidence. "auto": for each target
        that under which a ridge regression of the first 50 rows or more explains it clearly best, or none.
    members : "auto" or sequence of str
        The panel of models whose predictions are mixed by what each predicted before (pivoted): "gp", the Gaussian
        process of all other arguments, always; "neighbours", the same with what the nearest stored rows tell beside
        it; "ridge", a linear regression on all rows; "ridge_recent", one of the last 1,000; "level", the last targets.
        "auto": all of them, or "gp" alone where a kernel is given. Covariances, samples, latent spreads and the log
        evidence are those of "gp".
    neighbours, store : int
        Stored rows that "neighbours" asks for each prediction, and the most rows that are stored, the last ones;
        0 for none (pivoted).
    mean_function : callable or regressor, optional
        What is known of the targets beforehand: a function of X (m, d) that returns (m,) or (m, q), such as the rigid
        body of an arm, or a fitted regressor, such as yesterday's model, of which a copy is taken. The model learns the
        rest, and adds it to what it predicts. Rows then need all features.
    background : bool
        Whether hyperparameters are sought in a thread of their own, so that no call waits for it unless it is late.
        With tune="doubling" they are taken a fixed number of rows after the search began, at most 250, with or
        without a thread: what is learned and predicted is the same, bit for bit. The first rows, and a batch larger
        than all rows before, are tuned on at once.
    random_state : int, RandomState or None
        Seeds every draw; an int makes runs repeat exactly.

    Attributes
    ----------
    kernel_, noise_ : Kernel, float (where targets are (n,)) or (q,)
        Without white noise, and its variance, of the standardised targets `(y − y_offset_)/y_scale_`, without the
        prior mean.
    y_offset_, y_scale_ : (q,)
    n_features_in_, n_samples_seen_, rank_ : int
        Features, rows learned, and features of the method in use.
    pivots_ : (r, d)
        The inducing points (pivoted, rgp).
    trace_error_, trace_error_share_ : float
        tr(K − K̂) over the rows learned, and as a share of tr K.
    tuning_, tuning_seconds_ : Outcome or None, float
        The outcome of the tuning at the last batch, None where there was none; the time that all tuning took.
    n_missing_, n_empty_ : (d,), int
        How often each feature was missing in the rows that came to be learned; rows that lacked every feature, which
        were not learned.
    refused_, n_refused_, n_unlabelled_ : (b,), int, int
        Which rows of the last batch the guard refused, and how many of all rows were not learned so far; rows without
        any label.
    likelihood_ : Likelihood or tuple, under a likelihood
        With its learned parameters; of standardised targets for "student". One for each of several outputs.
    target_transform_ : tuple of q str
        The transforms in use, "none" among them.
    learner_ : Learner
        All that was learned, immutable.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgp import StreamingGPRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> gp = StreamingGPRegressor(random_state=0)
    >>> for i in range(0, 200, 50):
    ...     gp = gp.partial_fit(X[i : i + 50], np.sin(X[i : i + 50, 0]))
    >>> mean, std = gp.predict([[1.5]], return_std=True)
    """

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        method: Literal["pivoted", "srmf", "brmf", "nrmf", "rgp"] = "pivoted",
        likelihood: Literal["gaussian", "student", "poisson", "negative_binomial"] = "gaussian",
        rank: int | Literal["auto"] = 500,
        max_rank: int = 1000,
        tolerance: float = 0.03,
        oversampling: int = 10,
        noise: float | Literal["auto"] = "auto",
        tune: Literal["doubling", "initial", "hybrid", "continuous", "none"] = "doubling",
        objective: Literal["evidence", "loo", "training_error"] = "evidence",
        initial_batches: int = 10,
        bounds: tuple[float, float] = (1e-3, 1e3),
        forgetting: float | Literal["auto"] = "auto",
        memory_rows: float | None = None,
        memory: Literal["bounded", "rows"] = "bounded",
        variant: Literal["projected", "literal"] = "projected",
        refactor: bool = False,
        basis: Any = None,
        guard: float | Literal["auto"] | None = "auto",
        mixed_precision: bool = False,
        missing: Literal["impute", "raise"] = "impute",
        target_transform: Literal["log", "sqrt", "logit", "auto"] | None = None,
        members: str | Sequence[str] = "auto",
        neighbours: int = 32,
        store: int = 20_000,
        background: bool = True,
        mean_function: Any = None,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.method = method
        self.likelihood = likelihood
        self.rank = rank
        self.max_rank = max_rank
        self.tolerance = tolerance
        self.oversampling = oversampling
        self.noise = noise
        self.tune = tune
        self.objective = objective
        self.initial_batches = initial_batches
        self.bounds = bounds
        self.forgetting = forgetting
        self.memory_rows = memory_rows
        self.memory = memory
        self.variant = variant
        self.refactor = refactor
        self.basis = basis
        self.guard = guard
        self.mixed_precision = mixed_precision
        self.missing = missing
        self.target_transform = target_transform
        self.members = members
        self.neighbours = neighbours
        self.store = store
        self.background = background
        self.mean_function = mean_function
        self.random_state = random_state

    # Learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything, then learn X (n, d) and y (n,) or (n, q), with weights as `partial_fit` has them."""
        with writing(self):
            self._begin(X, y, sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, ids: Any = None) -> Self:
        """Learn a batch X (b, d) and y (b,) or (b, q) after all that came before; b from 1 up.

        A row of weight w, `sample_weight` (b,) or one number, has the noise variance σ²/w: known noise v is the weight
        σ²/v. Given noise and kernel, it tells as much as w equal rows. What is predicted has the weight one.

        Rows that `predict` has answered are scored by what it answered, however late their labels come; a row is known
        again by its values, or by its id, (b,), if ids were given to both. NaN among several outputs of y: that output
        does not learn the row; outputs that lack different labels are learned apart, at the cost of as many models.

        Raises with the model unchanged: the next learner is built whole, then assigned at once. Arguments of the
        constructor that were changed take effect at the next `fit`; `forgetting`, `memory_rows`, `tune`, `objective`,
        `initial_batches`, `bounds` and `background` at once: `gp.set_params(tune="none")` keeps what was found.
        Threads may predict meanwhile, each from one model; threads that learn wait.
        """
        with writing(self):
            learner = self._learner
            if learner is None:
                self._begin(X, y, sample_weight)
                return self
            learner = replace(learner, settings=learner.settings.followed(self))
            if not isinstance(X, np.ndarray) and dask.is_lazy(X):
                chosen = replace(gaussian(learner, "learning from Dask"), choice=None)
                self._learner = dask.update(chosen, X, y, sample_weight)
                return self
            if isinstance(learner, LatentLearner):
                batch = check_batch(X, y, learner.columns, learner.like, sample_weight)
                with one_blas_thread(batch.X):
                    self._learner = learner.update(batch)
                return self
            deferred = learner.first is None and learner.settings.guard is None
            incomplete = learner.imputation is not None
            batch = check_batch(
                X, y, learner.columns, learner.like, sample_weight, deferred=deferred, incomplete=incomplete
            )
            batch = without_mean(learner.settings.mean_function, batch)
            learner, again = chosen_again(learner, batch)
            if again:  # what was answered so far has other units
                self._learner, self._answered = learner, _no_answers(learner)
                return self
            batch = batch.transformed(learner.transform)
            asked, seen = batch.ids_of(ids), learner.rows_seen
            with one_blas_thread(batch.X), scoring(self._answered, batch.X, asked, seen) as late:
                self._learner = learner.update(batch, late)
        return self

    def _begin(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        """Learn the first rows."""
        # A seed from a copy: a batch that is refused further on must not move the user's generator.
        settings = Settings.of(self, seed_of(copy.deepcopy(self.random_state)))
        settings = replace(settings, mean_function=as_learned(settings.mean_function))
        if dask.is_lazy(X):
            if settings.likelihood != GAUSSIAN:
                raise undefined(settings, "learning from Dask")
            learner = dask.begin(settings, X, y, sample_weight)
        else:
            incomplete = settings.missing == "impute" and settings.likelihood == GAUSSIAN
            batch = check_batch(X, y, None, None, sample_weight, incomplete=incomplete)
            batch = without_mean(settings.mean_function, batch)
            transform = first_transform(settings.target_transform, batch.X, batch.y)
            choice = OpenChoice.first(settings.target_transform, batch)
            batch = batch.transformed(transform)
            with one_blas_thread(batch.X):
                if settings.likelihood != GAUSSIAN:
                    self._learner, self._answered = latent.begin(settings, batch), None
                    seed_of(self.random_state)
                    return
                learner = aligned(begin(settings, batch), batch.empty)
                learner = replace(learner, transform=transform, choice=choice)
        seed_of(self.random_state)
        self._learner = learner
        # After the learner: a thread that reads it before the learner has no answers of other outputs.
        self._answered = _no_answers(learner)

    def learn_streams(self, streams: Sequence[tuple[Any, ...]]) -> Self:
        """Let each worker of a Dask cluster learn a stream of its own, then merge what all learned (pivoted, rgp).

        Each stream is X, y and, where rows have weights, sample_weight: Dask collections, learned in their order. All
        start from the inducing points and hyperparameters of this regressor, which must have learned some rows, and
        change pivots as they need to.
        """
        with writing(self):
            learner = gaussian(self.learner_, "learn_streams")
            learner = replace(learner, settings=learner.settings.followed(self))
            self._learner = dask.learn_streams(streams, replace(learner, choice=None))
        return self

    def unlearn(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take rows away that were learned before, X (b, d) and y (b,) or (b, q) (pivoted, rgp), with their weights.

        Exact for pivoted if they are among the last 500 rows, or with memory="rows", or where neither pivots nor
        hyperparameters have changed since they were learned; for rgp where they are a batch as it was learned.

        Raises
        ------
        InputError
            With the model unchanged, where a row is known not to be there: it was never learned, or was unlearned
            before. That is known of the last 10,000 rows, and of older ones where what is left could not come from
            any rows. rgp also refuses after a tuning or after forgetting.
        """
        if dask.is_lazy(X):
            raise InputError("rows of a Dask collection cannot be unlearned; compute them first")
        with writing(self):
            learner = gaussian(self.learner_, "unlearn")
            incomplete = learner.imputation is not None
            batch = check_batch(X, y, learner.columns, learner.like, sample_weight, incomplete=incomplete)
            batch = without_mean(learner.settings.mean_function, batch).transformed(learner.transform)
            with one_blas_thread():
                self._learner = merging.unlearned(learner, batch)
        return self

    def merge(self, other: StreamingGPRegressor) -> Self:
        """Add what another regressor has learned from other rows (pivoted, rgp); it stays as it is.

        Both must have the same kernel and noise, and rgp the same basis; kernels that were tuned apart from one
        given kernel are brought together (pivoted). Exact where kernel and pivots are the same.
        """
        if not isinstance(other, StreamingGPRegressor):
            raise InputTypeError(f"merge takes another StreamingGPRegressor, not a {type(other).__name__}")
        theirs = gaussian(other.learner_, "merge")
        with writing(self), one_blas_thread():
            self._learner = merging.merged(gaussian(self.learner_, "merge"), theirs)
        return self

    def drop_feature_names(self) -> Self:
        """Take arrays from now on, with columns in the order learned, where the first batch was a frame."""
        with writing(self):
            learner = self.learner_
            self._learner = replace(learner, columns=replace(learner.columns, names=None))
        return self

    # Predicting

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        return_interval: float | None = None,
        latent: bool = False,
        calibrated: bool = True,
        expected: bool = False,
        ids: Any = None,
    ) -> Any:
        """Predict new observations at the rows of X (m, d).

        Parameters
        ----------
        X : (m, d)
        return_std, return_cov : bool
            Also return the standard deviation, (m,) or (m, q), or the covariance, (m, m) or (m, m, q).
        return_interval : float in (0, 1), optional
            Also return the lower and the upper end of the central interval of that probability.
        latent : bool
            Leave the noise out: the spread of the function alone.
        calibrated : bool
            Conformal calibration of std and interval on recent errors; False for those of the Gaussian process itself,
            which `latent` ones always are.
        expected : bool
            With `target_transform`: the mean in the place of the median.
        ids : (m,), optional
            By which `partial_fit` knows the rows again when their labels come, where the rows may be equal.

        Returns
        -------
        mean : (m,) or (m, q), then cov, or std, lower and upper, where asked for
            With `target_transform` the median, of which the mean is a function with the spread; see `expected`.
        """
        question = Question(return_std, return_cov, return_interval, latent, calibrated, expected)
        memory, learner = self._answered, self.learner_
        if not isinstance(X, np.ndarray) and dask.is_lazy(X):
            return dask.predict(gaussian(learner, "predicting with Dask"), X, question)
        incomplete = not isinstance(learner, LatentLearner) and learner.imputation is not None
        X = check_rows(X, learner.columns, learner.like, incomplete=incomplete)
        with one_blas_thread(X):
            return reply(learner, X, question, memory, ids)

    def predict_gradient(self, X: Any, return_std: bool = False, *, latent: bool = False) -> Any:
        """Return the derivatives of the predicted mean by the features at the rows of X (m, d); (m, d) or (m, d, q).

        With `return_std` also those of the standard deviation of a new observation, or of the function alone with
        `latent`. Of the member "gp" of the panel, as `predict` is with members=("gp",) and calibrated=False.
        O(r d) a row for r inducing points; with `return_std` O(r²) more, as the deviation itself costs, whatever d.
        For methods that keep all n rows, O(n d) and O(n r) more.
        """
        learner = gaussian(self.learner_, "predict_gradient")
        refuse(learner.transform, "predict_gradient")
        if not isinstance(X, np.ndarray) and dask.is_lazy(X):
            raise InputError("gradients of a Dask collection are not computed lazily; compute its rows first")
        X = check_rows(X, learner.columns, learner.like, incomplete=learner.imputation is not None)
        with one_blas_thread(X):
            return gradient(learner, X, std=return_std, latent=latent)

    def sample_function(self, random_state: Any = 0) -> SampledFunction:
        """Draw one function from the posterior, to be called with rows X (m, d): (m,) or (m, q), without noise.

        It is one function wherever and however often it is called, at O(r + 1000) products a row for r inducing
        points: for Thompson sampling and simulations. Over seeds its moments are those of `predict` with latent=True.
        Of the member "gp" of the panel. What is learned later does not change it.
        """
        learner = gaussian(self.learner_, "sample_function")
        refuse(learner.transform, "sample_function")
        with one_blas_thread():
            return sampled_function(learner, seed_of(random_state))

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0, *, latent: bool = False
    ) -> np.ndarray:
        """Draw new observations at the rows of X (m, d); shape (m, n_samples) or (m, q, n_samples)."""
        learner, rng = self.learner_, check_random_state(random_state)
        if isinstance(learner, LatentLearner):
            X = check_rows(X, learner.columns, learner.like)
            with one_blas_thread():
                return samples(learner, X, n_samples, rng, latent=latent)
        question = Question(cov=True, latent=latent)
        if not isinstance(X, np.ndarray) and dask.is_lazy(X):
            dask.predict(learner, X, question)  # raises: a covariance is not of parts
        X = check_rows(X, learner.columns, learner.like, incomplete=learner.imputation is not None)
        with one_blas_thread(X):
            mean, covariance = (to_host(v) for v in answer(replace(learner, transform=None), X, question))
        drawn = draw_samples(rng, mean, covariance, n_samples)
        if learner.transform is None:
            return drawn
        table = drawn[:, None, :] if drawn.ndim == 2 else drawn
        return learner.transform.undo(table.swapaxes(1, 2)).swapaxes(1, 2).reshape(drawn.shape)

    # Keeping

    def save(self, path: str | os.PathLike[str], **more: Any) -> None:
        """Write all that was learned to a file that `streamgp.load` reads; whole, or not at all.

        Going on after `load` equals never having stopped, bit for bit. `more` is kept beside it: numbers, texts,
        tuples, dictionaries. Models that learned NumPy arrays only. A prior mean is kept if it is a streamgp model, or
        a function or an object that `checkpoint.register` knows.
        """
        learner, answered = self.learner_, self._answered and self._answered.kept
        used, mine = learner.settings, Settings(**{name: getattr(self, name) for name in DECLARED}).saveable()
        changed = {n: getattr(mine, n) for n in DECLARED if getattr(self, n) is not getattr(used, n)}
        changed.pop("mean_function", None)  # the one that was learned with is kept
        content = {"learner": replace(learner, settings=used.saveable()), "answered": answered}
        checkpoint.write(path, {"changed": changed, **content, "more": more})


def _no_answers(learner: Learner) -> AnswerMemory:
    """Return the memory of a model that has answered nothing."""
    panel = len(learner.settings.panel)
    return AnswerMemory(Answers.none(learner.targets.n_outputs, panel + 1 if panel > 1 else 0))


def regressor_from(
    path: str | os.PathLike[str], content: dict[str, Any]
) -> tuple[StreamingGPRegressor, dict[str, Any]]:
    """Return the regressor in the content of a file, and what was kept beside it."""
    try:
        learner, answered, more = content["learner"], content["answered"], dict(content["more"])
        learned_with = {name: getattr(learner.settings, name) for name in DECLARED}
        gp = StreamingGPRegressor(**(learned_with | content["changed"]), random_state=learner.settings.seed)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold a regressor: {error}") from error
    if not isinstance(learner, Learner | LatentLearner):
        raise CheckpointError(f"{path} does not hold a regressor")
    gp._learner, gp._answered = learner, answered and AnswerMemory(answered)
    return gp, more
