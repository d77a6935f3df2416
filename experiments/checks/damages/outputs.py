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
        "np.argmin(len(self.X) * left",
        "np.argmax(len(self.X) * left",
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
        "alpha = V @ (solved / np.sqrt(amplitudes))",
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
        "rescaled: scores",
        "src/streamgp/learner.py",
        "scores=self.scores.retuned(factors, np.ones_like(factors), np.ones_like(factors))",
        "scores=self.scores",
        "a_rescaled_learner",
    ),
]
