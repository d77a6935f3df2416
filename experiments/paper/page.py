"""The report: one self-contained HTML page with figures, and the same text and tables as Markdown."""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streamgp.app import pages

from .results import Results
from .sections import Figure, Table, sections

TITLE = "The paper, run again"
# The page with figures beside the Markdown in docs/.
FIGURES = "reproduction-figures.html"
_STYLE = """
nav ol { columns: 20rem; column-gap: 2.5rem; padding-left: 1.2rem }
@media (min-width: 40.01rem) { td:first-child { min-width: 9rem } } nav li { margin: .15rem 0 }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(max(330px, 40%), 1fr)); gap: .5rem 1.5rem }
.figures figure { margin: .5rem 0; max-width: 420px } .figures img { width: 100% }
body { max-width: 72rem } p { max-width: 60rem } h3 { font-size: 1rem; margin: 1.5rem 0 -.5rem }
h2 { border-top: 1px solid #ccc; padding-top: 1rem; margin-top: 2.5rem }
"""


def write_page(content: Mapping[str, Any], page: Path, tables: Path) -> None:
    """Write the report as HTML, with its figures inside, and as Markdown."""
    page.write_text(html_page(content))
    tables.write_text(markdown(content))


def markdown(content: Mapping[str, Any]) -> str:
    """Return the report without its figures."""
    lines = [
        f"# {TITLE}",
        "",
        f"[The same with all figures]({FIGURES}). `make reproduce` runs everything.",
        "",
    ]
    for section in sections(Results(content), with_figures=False):
        lines += [f"## {section.title}", ""]
        for block in section.blocks:
            if isinstance(block, str):
                lines += [block, ""]
            elif isinstance(block, Table):
                if block.title:
                    lines += [f"**{block.title}**", ""]
                lines += [
                    "| " + " | ".join(row) + " |"
                    for row in (block.head, ["---"] * len(block.head), *block.rows)
                ]
                lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def html_page(content: Mapping[str, Any]) -> str:
    """Return the report with its figures."""
    found = sections(Results(content), with_figures=True)
    items = "".join(f'<li><a href="#{s.anchor}">{html.escape(s.title)}</a></li>' for s in found)
    parts = [f"<style>{_STYLE}</style><nav><ol>{items}</ol></nav>"]
    for section in found:
        parts.append(f'<section id="{section.anchor}">{pages.heading(section.title)}')
        figures: list[Figure] = []
        for block in section.blocks:
            if isinstance(block, Figure):
                figures.append(block)
                continue
            parts.append(_figures(figures))
            figures = []
            if isinstance(block, str):
                parts.append(f"<p>{_inline(block)}</p>")
            else:
                title = f"<h3>{html.escape(block.title)}</h3>" if block.title else ""
                parts.append(title + pages.table(block.rows, block.head))
        parts.append(_figures(figures) + "</section>")
    return pages.page(TITLE, parts)


def _inline(text: str) -> str:
    """Return a paragraph's text with **bold** and `code` marked."""
    out = html.escape(text)
    for mark, tag in (("**", "strong"), ("`", "code")):
        pieces = out.split(mark)
        out = "".join(f"<{tag}>{p}</{tag}>" if i % 2 else p for i, p in enumerate(pieces))
    return out


def _figures(figures: Sequence[Figure]) -> str:
    if not figures:
        return ""
    drawn = []
    for number, svg, caption in figures:
        data, text = (
            b64encode(svg.encode()).decode(),
            html.escape(f"{number}. {caption}" if number else caption),
        )
        image = f'<img alt="{text}" src="data:image/svg+xml;base64,{data}">'
        drawn.append(f"<figure>{image}<figcaption>{text}</figcaption></figure>")
    return f'<div class="figures">{"".join(drawn)}</div>'
