"""Damage to what makes each of several outputs one of its own: noise, amplitude, labels that are missing."""

from .damage import Damage

DAMAGES = [
    Damage(
        "15 one noise for all",
        "src/streamgp/gp/posterior.py",
        "return Groups.of(self.effective_noise)",
        "return Groups.of(0 * self.effective_noise + self.effective_noise.mean())",
        "fitted_as_if_each_were_alone",
    ),
    Damage(
        "15 no noise of its own is tuned",
        "src/streamgp/tuning/optimise.py",
        'kind == "evidence" and search.tune_noise and',
        'kind == "none" and',
        "learned_as_if_it_were_alone",
    ),
    Damage(
        "15 all noise is a local optimum",
        "src/streamgp/tuning/several.py",
        "np.argmin(rows.size * left",
        "np.argmax(rows.size * left",
        "noise_and_amplitude_of_each or learned_as_if",
    ),
    Damage(
        "15 means of outputs that share a factor",
        "src/streamgp/gp/shifted.py",
        "REFINEMENTS = 3",
        "REFINEMENTS = 0",
        "keep_the_mean_of_their_own_noise",
    ),
    Damage(
        "15 amplitude by K",
        "src/streamgp/tuning/several.py",
        "alpha = V @ (solved / np.sqrt(v))",
        "alpha = V @ solved",
        "gradient_is_that_of_differences",
    ),
    Damage(
        "rescaled: rows that wait",
        "src/streamgp/methods/pivoted.py",
        "residual=given.residual * here[None, :]",
        "residual=given.residual",
        "rescal",
    ),
    Damage(
        "rescaled: energy",
        "src/streamgp/gp/normal_equations.py",
        "self.energy * (factors[:, None] * factors[None, :])",
        "self.energy * factors[None, :]",
        "rescal",
    ),
    Damage(
        "rescaled: a tuning's sample",
        "src/streamgp/learner.py",
        "targets.rescaled(factors), sample.rescaled(factors)",
        "targets.rescaled(factors), sample",
        "learned_as_if_it_were_alone or keep_their_promise",
    ),
    Damage(
        "missing labels are not scored",
        "src/streamgp/online/calibration.py",
        "new = [np.where(gaps, 0.0, values) for values in new]",
        "new = [np.where(gaps, 1.0, values) for values in new]",
        "neither_scored_nor_counted",
    ),
    Damage(
        "missing labels are apart",
        "src/streamgp/methods/split.py",
        "(gaps[:, j] == pattern).all()",
        "True",
        "exact_gp_of_the_labels_it_has",
    ),
    Damage(
        "labels of each output are counted",
        "src/streamgp/methods/split.py",
        "counts[list(outputs)] = part.count",
        "pass",
        "evidence_of_missing_labels",
    ),
]
