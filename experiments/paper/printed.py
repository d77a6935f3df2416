"""The numbers that the paper prints."""

from __future__ import annotations

TITLES = {
    "I": "squared exponential kernel, hyperparameters fixed",
    "II": "distance kernel without factorisation, three optimisation modes",
    "III": "distance kernel, hyperparameters optimised during the first ten batches",
}
# RMSE and seconds a batch, by table, row and data set.
NUMBERS: dict[tuple[str, str, str], tuple[float, float]] = {
    ("I", "NRMF", "abalone"): (2.73, 0.63),
    ("I", "NRMF", "sarcos"): (14.40, 6.68),
    ("I", "RGP", "abalone"): (2.96, 1.05),
    ("I", "RGP", "sarcos"): (14.80, 0.82),
    ("I", "BRMF", "abalone"): (3.22, 0.55),
    ("I", "BRMF", "sarcos"): (8.88, 2.65),
    ("I", "SRMF", "abalone"): (3.22, 0.21),
    ("I", "SRMF", "sarcos"): (8.88, 1.15),
    ("II", "no optimisation", "abalone"): (55.60, 0.60),
    ("II", "no optimisation", "sarcos"): (386.68, 6.62),
    ("II", "continuous", "abalone"): (3.76, 125.77),
    ("II", "continuous", "sarcos"): (3.52, 595.72),
    ("II", "initial", "abalone"): (5.06, 1.72),
    ("II", "initial", "sarcos"): (5.66, 6.86),
    ("III", "NRMF", "abalone"): (5.06, 1.72),
    ("III", "NRMF", "sarcos"): (5.66, 6.86),
    ("III", "BRMF", "abalone"): (5.47, 1.42),
    ("III", "BRMF", "sarcos"): (6.93, 4.08),
    ("III", "SRMF", "abalone"): (4.76, 0.86),
    ("III", "SRMF", "sarcos"): (5.42, 1.81),
}


def printed(table: str, row: str, data: str) -> tuple[float, float] | None:
    """Return RMSE and seconds a batch of a row, "SRMF, projected" say; None where the paper has none."""
    return NUMBERS.get((table, row.partition(",")[0], data))
