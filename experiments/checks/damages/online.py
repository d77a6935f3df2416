"""Damage to tuning and its sample, calibration, the guard against outliers and the ledger of rows."""

from .damage import Damage

DAMAGES = [
    Damage(
        "units do not matter",
        "src/streamgp/tuning/start.py",
        "begun = Start(offset, deviation,",
        "begun = Start(offset, scale,",
        "test_units",
    ),
    Damage(
        "rows: gradient",
        "src/streamgp/tuning/objectives.py",
        "return value, 0.5 * (self.alpha",
        "return value, 0.6 * (self.alpha",
        "gradient_on_rows",
    ),
    Damage(
        "conformal reach",
        "src/streamgp/online/calibration.py",
        "share < wanted",
        "share < 0.9 * wanted",
        "conformal_quantile",
    ),
    Damage(
        "guard: inputs",
        "src/streamgp/online/outliers.py",
        "return np.asarray(~(away <= deviations * ",
        "return np.asarray(~(away <= 1e9 * ",
        "test_outliers",
        places=2,
    ),
    Damage(
        "fading scores",
        "src/streamgp/online/weights.py",
        "\nHALF_AGE = 100.0",
        "\nHALF_AGE = 1e9",
        "test_a_score_of_the_past",
    ),
    Damage(
        "sample: forgetting",
        "src/streamgp/tuning/reservoir.py",
        "b) - favour",
        "b)",
        "knows_all_that_was_forgotten",
    ),
    Damage(
        "sample: merging",
        "src/streamgp/tuning/reservoir.py",
        "[self.keys + self.favour, other.keys + other.favour]",
        "[self.keys, other.keys]",
        "merged_sample_weighs",
    ),
    Damage(
        "tuning: forgetting",
        "src/streamgp/tuning/schedule.py",
        "return waited and self.known <= 0.5 * max(effective_rows, 1.0)",
        "return waited and rows_seen >= 2 * self.tuned_at",
        "half_of_what_counts",
    ),
    Damage(
        "hostile 2 ledger",
        "src/streamgp/online/history.py",
        "if not at.size and (self.complete or int(row) in before):",
        "if False:",
        "unlearned_once or never_learned",
    ),
    Damage(
        "hostile 2 learned again",
        "src/streamgp/online/history.py",
        "replace(listed, removed=_without(self.removed, new))",
        "listed",
        "learned_again_can_be",
    ),
    Damage(
        "hostile 11 overflow",
        "src/streamgp/online/calibration.py",
        "np.where(self.unit > 0, self.unit, noise + to_host(typical))",
        "np.ones_like(self.unit)",
        "1e100",
    ),
]
