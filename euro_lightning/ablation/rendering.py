"""A report as Markdown, and as one HTML file that needs nothing else."""

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Heading:
    """A heading; the first level is the report's title."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    strong: bool = False
    """Whether it is the answer."""


@dataclass(frozen=True)
class Table:
    """A table; its first column names the row."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """A picture beside the report."""

    path: Path
    text: str
    """What it shows."""


Block = Heading | Text | Table | Figure

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1f24; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; line-height: 1.25 } h2 { font-size: 1.2rem; margin-top: 2.2rem }
.answer { font-size: 1.1rem; border-left: 4px solid #2b6cb0; padding: .3rem 0 .3rem 1rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: .9rem; margin: 1rem 0 }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #d9dee3 }
th:first-child, td:first-child { text-align: left } thead th { border-bottom: 2px solid #8a949e }
td.text, th.text { text-align: left; white-space: normal }
figure { margin: 1.5rem 0 } img { max-width: 100%; height: auto } figcaption { font-size: .9rem; color: #57606a }
"""


def as_markdown(blocks: Sequence[Block]) -> str:
    """The report as Markdown; figures are named relative to it."""
    parts = []
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"{'#' * block.level} {block.text}")
        elif isinstance(block, Text):
            parts.append(f"**{block.text}**" if block.strong else block.text)
        elif isinstance(block, Figure):
            parts.append(f"![{block.text}]({block.path.name})")
        else:
            rule = ["---", *["---:"] * (len(block.head) - 1)]
            rows = [[cell.replace("|", "\\|") for cell in row] for row in (block.head, rule, *block.rows)]
            parts.append("\n".join("| " + " | ".join(row) + " |" for row in rows))
    return "\n\n".join(parts) + "\n"


def as_html(blocks: Sequence[Block]) -> str:
    """The report as one page, figures included."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "report")
    body = "\n".join(_html(block) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>\n</head>\n'
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{html.escape(block.text)}</h{block.level}>"
    if isinstance(block, Text):
        kind = ' class="answer"' if block.strong else ""
        return f"<p{kind}>{html.escape(block.text)}</p>"
    if isinstance(block, Figure):
        data = base64.b64encode(block.path.read_bytes()).decode()
        text = html.escape(block.text)
        return (
            f'<figure><img src="data:image/png;base64,{data}" alt="{text}">'
            f"<figcaption>{text}</figcaption></figure>"
        )
    words = [_is_text([row[i] for row in block.rows]) for i in range(len(block.head))]

    def row(cells: Sequence[str], tag: str) -> str:
        kinds = [' class="text"' if is_text else "" for is_text in words]
        own = (f"<{tag}{kind}>{html.escape(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{''.join(own)}</tr>"

    rows = "\n".join(row(cells, "td") for cells in block.rows)
    return f'<div class="wide"><table><thead>{row(block.head, "th")}</thead>\n<tbody>{rows}</tbody></table></div>'


def _is_text(cells: Sequence[str]) -> bool:
    """Whether a column holds sentences and no numbers."""
    return any(len(cell) > 40 for cell in cells)
