"""The page of the technical note (docs/note.md): its numbers, figures, equations and formulas."""

import re
from pathlib import Path

import numpy as np
import pytest

from docs import note_figures

ROOT = Path(__file__).resolve().parents[1]
NOTE = (ROOT / "docs" / "note.md").read_text()


def test_the_numbers_of_the_page_are_those_of_the_experiment():
    rows = [line.strip("|").split("|") for line in NOTE.splitlines() if line.startswith("| ") and "%" in line]
    cells = [[cell.strip(" *%") for cell in row[2:]] for row in rows]
    kinds = [(kind, cross) for kind in note_figures.FACTORS for cross in ("printed", "projected")]
    assert len(cells) == len(kinds)
    for printed, (kind, cross) in zip(cells, kinds, strict=True):
        found = note_figures.scores(kind, cross)
        assert [float(v) for v in printed[:2]] == pytest.approx(found[:2], rel=0.02)
        assert float(printed[2]) == pytest.approx(100 * found.negative, abs=0.3)
    assert f"{note_figures.bound():.2f}" in NOTE
    assert note_figures.slopes() == pytest.approx({"bordered": -1.0, "projected": -1.0}, abs=5e-4)
    spectra = note_figures.spectrum()
    assert [int((values < -1e-9).sum()) for values in spectra] == [0, 50, 0]
    assert f"lowest −{-spectra.bordered[-1]:.3f}" in NOTE
    ratios = note_figures.truncated()
    assert f"between {min(ratios):.2f} and {max(ratios):.2f}" in NOTE
    largest = max(
        float(np.abs(b.mean).max()) for b in note_figures.run("projected", "projected", labelled=False)
    )
    assert largest < note_figures.bound()


@pytest.mark.parametrize("name", list(note_figures.DRAWN))
def test_every_figure_of_the_page_can_be_drawn_and_has_words_for_it(name):
    assert note_figures.drawn(name).axes
    assert re.search(rf"figures/note-{name}\.svg\n:alt: .{{40,}}\n", NOTE)
    assert (ROOT / "docs" / "figures" / f"note-{name}.svg").stat().st_size > 5000


def test_no_figure_of_the_page_is_left_over():
    assert {p.stem for p in (ROOT / "docs" / "figures").glob("*.svg")} == {
        f"note-{n}" for n in note_figures.DRAWN
    }


def test_the_first_seven_equations_are_those_of_the_paper_in_its_order():
    labels = re.findall(r"^\$\$ \(([\w-]+)\)$", NOTE, re.MULTILINE)
    paper = ["posterior", "inverse", "range-finder", "bordered", "distance", "inverse-p", "inverse-k"]
    assert labels[:7] == paper
    assert set(re.findall(r"\{eq\}`([\w-]+)`", NOTE)) <= set(labels)


def test_every_formula_of_the_page_is_turned_into_mathml_without_a_rest():
    mathml = pytest.importorskip("latex2mathml.converter")
    formulas = re.findall(r"\$\$\n(.*?)\$\$|\$([^$\n]+)\$", NOTE, re.DOTALL)
    assert len(formulas) > 200
    for block, inline in formulas:
        assert "\\" not in mathml.convert(block or inline), block or inline
