"""A Sphinx renderer of mathematics as MathML, which browsers draw themselves: a page loads nothing from elsewhere."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number


def mathml(latex: str, display: str = "inline") -> str:
    """Return MathML; the sign of transposition as an identifier, since an operator would have space around it."""
    return convert(latex, display=display).replace("<mo>&#x022A4;</mo>", "<mi>&#x022A4;</mi>")


def visit_inline(page: Any, node: nodes.math) -> None:
    """Write a formula within a line; a word joiner keeps a comma that follows on the same line."""
    page.body.append(mathml(node.astext()) + "&#8288;")
    raise nodes.SkipNode


def visit_block(page: Any, node: nodes.math_block) -> None:
    """Write a formula in a box of its own, which scrolls where it is too wide, and its number."""
    page.body.append(page.starttag(node, "div", CLASS="math"))
    page.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>')
    if node["number"]:
        page.body.append(f'<span class="eqno">({get_node_equation_number(page, node)})')
        page.add_permalink_ref(node, "Link to this equation")
        page.body.append("</span>")
    page.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
