"""The embedded corpus: text in 15 languages, code, math and parallel pairs from installed packages.

A fresh machine without a network has it. Languages and pairs come from the translation
catalogues of Django and Plone, English also from Python's help, code from the standard
library, math from SymPy. It is small and repetitive: enough to see a recipe learn, not to
judge one.
"""

import ast
import importlib.metadata
import importlib.util
import inspect
import platform
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from euro_lightning.data.catalogues import SPLIT_SHARES, Message, read_catalogue
from euro_lightning.data.documents import Document, fraction, split_of_key
from euro_lightning.errors import DataError
from euro_lightning.files import hash_value

_VERSION = 1
"""Raised when the same packages would give other documents."""

_PACKAGES = ("django", "plone.app.locales", "sympy")

LANGUAGES = {
    "fr": ("fr",),
    "de": ("de",),
    "es": ("es",),
    "it": ("it",),
    "pt": ("pt", "pt_BR"),
    "pl": ("pl",),
    "nl": ("nl",),
    "ru": ("ru",),
    "tr": ("tr",),
    "zh": ("zh_CN", "zh_Hans"),
    "ja": ("ja",),
    "vi": ("vi",),
    "ar": ("ar",),
    "hi": ("hi",),
}
"""Folders of the catalogues of each language but English; a later one adds what the first lacks."""

_DENSE = {"zh", "ja"}
_DOCUMENT, _DENSE_DOCUMENT, _PAIR, _PROGRAM = 1800, 700, 240, 2400
"""Characters at which a document, one without spaces, a pair's side and a piece of a program end."""

_ENGLISH, _CODE, _MATH, _PARALLEL = 1_200_000, 1_200_000, 1_000_000, 100_000
"""Characters taken at most of English documentation, code, math, and pairs of one language."""


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


def _require_packages() -> dict[str, str]:
    versions, missing = {}, []
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        raise DataError(
            f"the embedded corpus needs {', '.join(missing)}: pip install 'euro_lightning[quickstart]',"
            " or give your own text with data.corpus"
        )
    return versions


def embedded_fingerprint() -> str:
    """A hash of all that the embedded documents depend on."""
    return hash_value([_VERSION, _require_packages(), platform.python_version(), SPLIT_SHARES])


def embedded_documents() -> Iterator[Document]:
    """Every document of the embedded corpus, the same on every machine with the same versions.

    Raises:
        DataError: the packages are not installed.
    """
    _require_packages()
    yield from _all_documents()


@cache
def _all_documents() -> tuple[Document, ...]:
    documents: list[Document] = []
    english: dict[str, Message] = {}
    for lang, folders in LANGUAGES.items():
        messages = _messages(folders)
        for message in messages:
            english.setdefault(message.english, message)
        limit = _DENSE_DOCUMENT if lang in _DENSE else _DOCUMENT
        texts = _unique((message.split, message.translation) for message in messages)
        documents += _joined(lang, texts, limit)
        documents += _pairs(lang, messages)
    texts = _unique((message.split, message.english) for message in english.values())
    documents += _joined("en", texts, _DOCUMENT)
    library = Path(sysconfig.get_paths()["stdlib"])
    modules = _modules(library, ("test", "tests", "idlelib", "site-packages", "pydoc_data", "lib2to3"))
    # the docstrings of a module are part of its code, so a module gives the one or the other
    documents += _capped(
        _docstrings([m for m in modules if _gives_text(m, library)], library, "en", "text"), _ENGLISH
    )
    documents += _capped(_help_topics(), _ENGLISH)
    documents += _capped(_programs([m for m in modules if not _gives_text(m, library)], library), _CODE)
    sympy = _package("sympy")
    documents += _capped(_docstrings(_modules(sympy, ("tests", "benchmarks")), sympy, "math", "math"), _MATH)
    return tuple(documents)


def _messages(folders: Iterable[str]) -> list[Message]:
    roots = [_package("plone.app.locales") / "locales", *sorted(_package("django").rglob("locale"))]
    messages: dict[str, Message] = {}
    for folder in folders:
        for root in roots:
            for path in sorted((root / folder / "LC_MESSAGES").glob("*.po")):
                for message in read_catalogue(path):
                    messages.setdefault(message.english, message)
    return list(messages.values())


def _unique(texts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    seen: dict[str, tuple[str, str]] = {}
    for split, text in texts:
        seen.setdefault(" ".join(text.split()), (split, text))
    return list(seen.values())


def _joined(lang: str, texts: Iterable[tuple[str, str]], limit: int) -> Iterator[Document]:
    """Consecutive texts of the same split, a line each, as documents of about `limit` characters."""
    waiting: dict[str, list[str]] = {}
    made = 0
    for split, text in [*texts, *((split, "") for split in ("train", "validation", "test"))]:
        lines = waiting.setdefault(split, [])
        if text:
            lines.append(text)
        if lines and (not text or sum(map(len, lines)) >= limit):
            yield Document("\n".join(lines), lang, f"catalogue/{lang}/{made}", split=split)
            made += 1
            waiting[split] = []


def _pairs(lang: str, messages: list[Message]) -> Iterator[Document]:
    """Consecutive messages of the same split with their translations, line by line."""
    waiting: dict[str, list[Message]] = {}
    made = characters = 0
    for message in messages:
        lines = waiting.setdefault(message.split, [])
        lines.append(message)
        if sum(len(line.english) for line in lines) < _PAIR:
            continue
        source = "\n".join(line.english for line in lines)
        target = "\n".join(line.translation for line in lines)
        waiting[message.split] = []
        yield Document(
            source,
            "en",
            f"catalogue/en-{lang}/{made}",
            "parallel",
            target=target,
            target_lang=lang,
            split=message.split,
        )
        made += 1
        characters += len(source) + len(target)
        if characters >= _PARALLEL:
            return


def _modules(root: Path, without: tuple[str, ...]) -> list[Path]:
    """Python files below a folder, in an order that depends on their names alone."""
    found = [p for p in root.rglob("*.py") if not set(p.relative_to(root).parts[:-1]) & set(without)]
    return sorted(found, key=lambda path: (fraction(path.relative_to(root).as_posix()), path.as_posix()))


def _gives_text(path: Path, root: Path) -> bool:
    return fraction("text " + path.relative_to(root).as_posix()) < 0.5


def _read(path: Path) -> tuple[str, ast.Module] | None:
    try:
        text = path.read_text(encoding="utf-8")
        return text, ast.parse(text)
    except (UnicodeDecodeError, SyntaxError, OSError):
        return None


def _docstrings(modules: Iterable[Path], root: Path, lang: str, domain: str) -> Iterator[Document]:
    """The docstrings of each module, cut into documents between docstrings or paragraphs."""
    for path in modules:
        if (parsed := _read(path)) is None:
            continue
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        texts = [ast.get_docstring(node) for node in ast.walk(parsed[1]) if isinstance(node, kinds)]
        paragraphs = [part for text in texts if text and len(text) > 80 for part in text.split("\n\n")]
        yield from _pieces(
            paragraphs, f"docstrings/{path.relative_to(root).as_posix()}", lang, domain, "\n\n"
        )


def _help_topics() -> Iterator[Document]:
    from pydoc_data.topics import topics

    for name, text in sorted(topics.items()):
        yield from _pieces(inspect.cleandoc(text).split("\n\n"), f"help/{name}", "en", "text", "\n\n")


def _programs(modules: Iterable[Path], root: Path) -> Iterator[Document]:
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
    """Consecutive blocks as documents of about `_PROGRAM` characters."""
    waiting: list[str] = []
    made = 0
    for block in [*blocks, None]:
        full = sum(map(len, waiting)) >= _PROGRAM
        text = glue.join(waiting)
        if waiting and (full or block is None):
            if text.strip():
                split = split_of_key(f"{name}/{made}", *SPLIT_SHARES)
                yield Document(text, lang, f"{name}/{made}", domain, split=split)
            made += 1
            waiting = []
        if block is not None:
            waiting.append(block)


def _capped(documents: Iterable[Document], characters: int) -> Iterator[Document]:
    """The first documents of about so many characters together."""
    for document in documents:
        if characters <= 0:
            return
        characters -= len(document.text)
        yield document
