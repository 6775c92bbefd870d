"""Documentation and source code of installed packages as documents; nothing is imported from them."""

import ast
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path

from euro_lightning.data.catalogues import SPLIT_SHARES
from euro_lightning.data.documents import Document, fraction, split_of_key

PIECE = 1200
"""Characters at which a document ends."""


def modules(root: Path, without: tuple[str, ...]) -> list[Path]:
    """Python files below a folder, in an order that depends on their names alone."""
    found = [p for p in root.rglob("*.py") if not set(p.relative_to(root).parts[:-1]) & set(without)]
    return sorted(found, key=lambda path: (fraction(path.relative_to(root).as_posix()), path.as_posix()))


def gives_text(path: Path, root: Path) -> bool:
    """Whether a module gives its docstrings; its docstrings are part of its code, so it gives one or the other."""
    return fraction("text " + path.relative_to(root).as_posix()) < 0.5


def _read(path: Path) -> tuple[str, ast.Module] | None:
    try:
        text = path.read_text(encoding="utf-8")
        return text, ast.parse(text)
    except (UnicodeDecodeError, SyntaxError, OSError):
        return None


def docstrings(modules: Iterable[Path], root: Path, lang: str, domain: str) -> Iterator[Document]:
    """The docstrings of each module, cut into documents between docstrings or paragraphs."""
    for path in modules:
        if (parsed := _read(path)) is None:
            continue
        texts = [ast.get_docstring(node) for node in _definitions(parsed[1])]
        paragraphs = [part for text in texts if text and len(text) > 80 for part in text.split("\n\n")]
        yield from _pieces(
            paragraphs, f"docstrings/{path.relative_to(root).as_posix()}", lang, domain, "\n\n"
        )


Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _definitions(node: Documented) -> Iterator[Documented]:
    """A module or definition, and those in it."""
    yield node
    for child in node.body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _definitions(child)


def help_topics() -> Iterator[Document]:
    """Python's help on its syntax."""
    from pydoc_data.topics import topics

    for name, text in sorted(topics.items()):
        yield from _pieces(inspect.cleandoc(text).split("\n\n"), f"help/{name}", "en", "text", "\n\n")


def programs(modules: Iterable[Path], root: Path) -> Iterator[Document]:
    """The source of each module, cut between top-level statements, long classes between methods."""
    for path in modules:
        if (parsed := _read(path)) is None:
            continue
        lines = parsed[0].splitlines()
        starts = sorted({node.lineno - 1 for node in _statements(parsed[1])} | {0})
        blocks = ["\n".join(lines[a:b]) for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]
        yield from _pieces(blocks, f"code/{path.relative_to(root).as_posix()}", "code", "code", "\n")


def _statements(module: ast.Module) -> Iterator[ast.stmt]:
    for node in module.body:
        yield node
        if isinstance(node, ast.ClassDef):
            yield from node.body


def _pieces(blocks: Iterable[str], name: str, lang: str, domain: str, glue: str) -> Iterator[Document]:
    """Consecutive blocks as documents of about `PIECE` characters."""
    waiting: list[str] = []
    made = 0
    for block in [*blocks, None]:
        full = sum(map(len, waiting)) >= PIECE
        text = glue.join(waiting)
        if waiting and (full or block is None):
            if text.strip():
                split = split_of_key(f"{name}/{made}", *SPLIT_SHARES)
                yield Document(
                    text, lang, f"{name}/{made}", domain, split=split, origin=name.partition("/")[0]
                )
            made += 1
            waiting = []
        if block is not None:
            waiting.append(block)
