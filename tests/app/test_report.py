"""The page about a run."""

import re
from itertools import pairwise

import numpy as np
import pytest

from app.helpers import run, write_csv
from streamgp import kernels
from streamgp.app import panels
from streamgp.app.run_page import broken_windows, relevances
from streamgp.app.trace import Stretch, Sums


def page(tmp_path, *more, source="t.csv"):
    outcome = run(tmp_path / source, "--rank", 30, "--batch", 10, "--report", tmp_path / "r.html", *more)
    assert outcome.exit_code == 0, outcome.output
    return (tmp_path / "r.html").read_text(), outcome


def write_two(path, n=700, jump=None):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n, 2))
    u = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    v = X[:, 1] + 0.1 * rng.standard_normal(n)
    if jump:
        v[jump : jump + 100] = 1.06 ** np.arange(100) * rng.choice([-1.0, 1.0], 100)
    lines = ["bends,<straight>,u,v", *(f"{a},{b},{c},{d}" for (a, b), c, d in zip(X, u, v, strict=True))]
    path.write_text("\n".join(lines) + "\n")


def test_the_report_is_one_page_that_loads_nothing_with_panels_for_each_target(tmp_path):
    write_two(tmp_path / "t.csv")
    text, _ = page(tmp_path, "--target", "u,v")
    assert "http" not in text
    # Latest, worst, whole run, error, coverage and members for each of two; what matters, latency, calibration.
    assert text.count("data:image/png") == 2 * 6 + 3
    for said in ("<h2>u</h2>", "<h2>v</h2>", "last value", "running mean", "MAE", "Latency", "a larger"):
        assert said in text
    assert "&lt;straight&gt;" not in text  # only in the figure, and never as a tag
    assert "<straight>" not in text


def test_every_error_stands_beside_those_of_the_baselines_in_the_summary_too(tmp_path):
    write_csv(tmp_path / "t.csv", 400)
    text, outcome = page(tmp_path, "--target", "y")
    table = [line for line in outcome.output.splitlines() if line.startswith("│")]
    own, last, mean = ([float(cell) for cell in re.findall(r"\d+\.?\d*(?= +│)", line)] for line in table)
    assert own[0] < 0.6 * mean[0] < 0.6 * last[0]
    assert own[1] < 0.6 * mean[1]
    assert f">{mean[0]:.4g}<" in text


def test_windows_where_coverage_broke_are_named(tmp_path):
    write_two(tmp_path / "t.csv", jump=400)
    text, _ = page(tmp_path, "--target", "u,v", "--guard", "none", "--alarm", "drift")
    rows = re.findall(r'from – to">line ([\d,]+) – line ([\d,]+)</td><td[^>]*>(\w)<', text)
    assert any(400 <= int(first) <= 502 and target == "v" for first, _, target in rows)
    assert '<p class="alarm">' in text


def test_a_window_is_named_only_if_coverage_is_clearly_too_low():
    def stretch(i, inside, rows=50.0):
        sums = Sums.none(1)._replace(
            scored=np.array([rows]), inside=np.array([inside]), squares=np.array([4 * rows])
        )
        return Stretch(1, 50 * i, f"line {i}", f"line {i + 1}", 0.0, sums, np.zeros((0, 1)))

    counts = [45, 44, 45, 30, 46, 45, 20, 21, 45]
    (worst, second) = broken_windows([stretch(i, float(c)) for i, c in enumerate(counts)], 0, 0.9)
    assert (worst.first, worst.last, worst.rows) == ("line 6", "line 8", 100)
    assert worst.share == pytest.approx(0.41)
    assert worst.rmse == pytest.approx(2.0)
    assert second.first == "line 2"


def test_relevance_is_spread_over_length_scale_by_the_variances_of_the_parts():
    spread = np.array([1.0, 2.0, 3.0])
    one = 2.0 * kernels.SquaredExponential([1.0, 2.0, 30.0])
    np.testing.assert_allclose(relevances(one, spread), [1.0, 1.0, 0.1])
    both = one + 6.0 * kernels.Matern(0.5) + kernels.Constant(9.0)
    parts = np.stack([[1.0, 1.0, 0.1], [2.0, 4.0, 6.0]])
    np.testing.assert_allclose(relevances(both, spread), np.sqrt([0.25, 0.75] @ parts**2))
    assert not relevances(kernels.Constant(1.0) + kernels.White(1.0), spread).any()


def test_a_run_without_a_score_has_a_page_too(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,\n2,\n")
    text, _ = page(tmp_path, "--target", "y")
    assert "2 without a label" in text
    assert "data:image/png" not in text
    write_csv(tmp_path / "t.csv", 600, l300="x,1,1,1")
    text, _ = page(tmp_path, "--target", "y", "--on-error", "skip", "--method", "rgp")
    assert "Rows that were not learned" in text


def test_a_resumed_run_reports_all_of_it(tmp_path):
    write_csv(tmp_path / "t.csv", 800)
    whole = (tmp_path / "t.csv").read_text().splitlines(keepends=True)
    said = []
    for ends in ((801,), (333, 801)):
        for end in ends:
            (tmp_path / "t.csv").write_text("".join(whole[:end]))
            more = ("--target", "y", "--checkpoint", tmp_path / f"{len(ends)}.gp", "--resume")
            text, _ = page(tmp_path, *more)
        said.append(re.sub(r"<h2>Latency.*?</table>", "", text, flags=re.DOTALL))
    texts = [re.sub(r"data:image/png[^\"]*|[\d.]+ s of", "", each) for each in said]
    # Batches are cut at other lines where the file ended before: figures and last digits may differ.
    assert texts[0].count("<tr>") == texts[1].count("<tr>")
    assert "800 rows" in texts[1]
    assert "line 2 –" in texts[1] or "In no 100 rows" in texts[1]


@pytest.mark.parametrize("n", [1, 2, 3, 5, 300])
@pytest.mark.parametrize("name", ["line 7", "14/03/2004 22.00.00", "2016-01-11T17:00:00+01:00"])
def test_names_below_an_axis_lie_beside_each_other_and_inside_the_figure(n, name):
    figure, axes = panels._new("title")
    axes.plot(np.arange(n), 1e6 + np.arange(n))
    panels._name_rows(axes, [name] * n)
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert len(boxes) >= min(n, 2)
    for left, right in pairwise(boxes):
        assert left.x1 < right.x0
    assert boxes[0].x0 >= 0
    assert boxes[-1].x1 <= figure.bbox.width
