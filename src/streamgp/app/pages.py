"""Parts of self-contained HTML pages, for screens, phones and print."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: auto; padding: 1rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top }
@media (min-width: 40.01rem) { td:last-child:not(.n) { min-width: 14rem } }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
figure { margin: 1.5rem 0 } img { max-width: 100%; height: auto } figcaption { font-size: .9rem; color: #444 }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 0 1.5rem }
.grid figure { margin: .8rem 0 } .grid img { width: 100% }
h1 { font-size: clamp(1.4rem, 6vw, 2rem) } h1, h2, p { overflow-wrap: anywhere }
.alarm { border-left: .3rem solid #D55E00; background: #fff4ec; padding: .3rem .7rem; margin: .4rem 0 }
@media (max-width: 40rem) {
  table, tbody, tr, td { display: block } tr:first-child { display: none }
  tr { border-bottom: 2px solid #999; padding: .4rem 0 } td { border: 0; padding: .1rem .4rem }
  td:first-child { font-weight: 600 } td.n { text-align: left; white-space: normal }
  td:empty { display: none } td:not(:first-child)::before { content: attr(data-head) ": "; color: #555 }
}
"""


def page(title: str, parts: Sequence[str]) -> str:
    """Return a page of parts under a title; it loads nothing from elsewhere."""
    name = html.escape(title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{_STYLE}</style></head><body><h1>{name}</h1>{''.join(parts)}</body></html>"
    )


def heading(text: str) -> str:
    """Return a heading of the second level."""
    return f"<h2>{html.escape(text)}</h2>"


def alarm(text: str) -> str:
    """Return a paragraph that stands out."""
    return f'<p class="alarm"><strong>Alarm</strong> {html.escape(text)}</p>'


def grid(parts: Sequence[str]) -> str:
    """Return parts side by side, as many as there is room for."""
    return f'<div class="grid">{"".join(parts)}</div>'


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{html.escape(text)}</p>"


def picture(caption: str, png: bytes) -> str:
    """Return an embedded PNG with its caption."""
    text = html.escape(caption)
    data = base64.b64encode(png).decode()
    return f'<figure><img alt="{text}" src="data:image/png;base64,{data}"><figcaption>{text}</figcaption></figure>'


def table(rows: Sequence[Sequence[str]], head: Sequence[str]) -> str:
    """Return a table with numbers aligned right; on a phone each row is a block of column heads and values."""
    numeric = [i > 0 and all(_is_number(row[i]) for row in rows) for i in range(len(head))]

    def cell(tag: str, i: int, value: str) -> str:
        kind = ' class="n"' if numeric[i] else ""
        name = f' data-head="{html.escape(head[i])}"' if tag == "td" else ""
        return f"<{tag}{kind}{name}>{html.escape(value)}</{tag}>"

    lines = ["".join(cell("th", i, v) for i, v in enumerate(head))]
    lines += ["".join(cell("td", i, v) for i, v in enumerate(row)) for row in rows]
    return '<div class="wide"><table>' + "".join(f"<tr>{line}</tr>" for line in lines) + "</table></div>"


def _is_number(value: str) -> bool:
    """Return whether a cell is a number, perhaps with a unit, an interval or a dash for none."""
    return len(value) <= 24 and (
        not value or value[0] in "–−-<" or value[0].isdigit() or value == "overflows"
    )
