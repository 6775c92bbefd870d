"""The embedded corpus: text in 15 languages, code, math and parallel pairs from installed packages.

A fresh machine without a network has it. Languages and pairs come from the translation
catalogues of Django and Plone, English also from Python's help, code from the standard
library, math from SymPy. It is small and repetitive: enough to see a recipe learn, not to
judge one.
"""

import importlib.metadata
import importlib.util
import platform
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from euro_lightning.data.catalogues import SPLIT_SHARES, Message, read_catalogue
from euro_lightning.data.documents import Document
from euro_lightning.data.library import docstrings, gives_text, help_topics, modules, programs
from euro_lightning.errors import DataError
from euro_lightning.files import hash_value

_VERSION = 3
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
_DOCUMENT, _DENSE_DOCUMENT, _PAIR = 1200, 450, 240
"""Characters at which a document, one in a script without spaces, and a pair's side end."""

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
        texts = _unique((message, message.translation) for message in messages)
        documents += _joined(lang, texts, limit)
        documents += _pairs(lang, messages)
    texts = _unique((message, message.english) for message in english.values())
    documents += _joined("en", texts, _DOCUMENT)
    library = Path(sysconfig.get_paths()["stdlib"])
    files = modules(library, ("test", "tests", "idlelib", "site-packages", "pydoc_data", "lib2to3"))
    documents += _capped(
        docstrings([m for m in files if gives_text(m, library)], library, "en", "text"), _ENGLISH
    )
    documents += _capped(help_topics(), _ENGLISH)
    documents += _capped(programs([m for m in files if not gives_text(m, library)], library), _CODE)
    sympy = _package("sympy")
    documents += _capped(docstrings(modules(sympy, ("tests", "benchmarks")), sympy, "math", "math"), _MATH)
    return tuple(documents)


def _messages(folders: Iterable[str]) -> list[Message]:
    roots = [("plone", _package("plone.app.locales") / "locales")]
    roots += [("django", root) for root in sorted(_package("django").rglob("locale"))]
    messages: dict[str, Message] = {}
    for folder in folders:
        for package, root in roots:
            for path in sorted((root / folder / "LC_MESSAGES").glob("*.po")):
                for message in read_catalogue(path, package):
                    messages.setdefault(message.english, message)
    return list(messages.values())


def _unique(texts: Iterable[tuple[Message, str]]) -> list[tuple[Message, str]]:
    seen: dict[str, tuple[Message, str]] = {}
    for message, text in texts:
        seen.setdefault(" ".join(text.split()), (message, text))
    return list(seen.values())


def _joined(lang: str, texts: Iterable[tuple[Message, str]], limit: int) -> Iterator[Document]:
    """Consecutive texts of the same split, a line each, as documents of about `limit` characters."""
    waiting: dict[str, list[str]] = {}
    origins: dict[str, str] = {}
    made = 0
    for message, text in [*texts, *((None, split) for split in ("train", "validation", "test"))]:
        split = message.split if message else text
        lines = waiting.setdefault(split, [])
        if message:
            if not lines:
                origins[split] = message.package
            lines.append(text)
        if lines and (not message or sum(map(len, lines)) >= limit):
            yield Document(
                "\n".join(lines), lang, f"catalogue/{lang}/{made}", split=split, origin=origins[split]
            )
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


def _capped(documents: Iterable[Document], characters: int) -> Iterator[Document]:
    """The first documents of about so many characters together."""
    for document in documents:
        if characters <= 0:
            return
        characters -= len(document.text)
        yield document
