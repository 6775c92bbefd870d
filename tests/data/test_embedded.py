"""The embedded corpus: 15 languages, code, math and pairs, split by message."""

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from euro_lightning.data import embedded
from euro_lightning.data.catalogues import read_catalogue
from euro_lightning.data.documents import Document
from euro_lightning.data.embedded import LANGUAGES, embedded_documents, embedded_fingerprint
from euro_lightning.errors import DataError


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    pytest.importorskip("sympy")
    pytest.importorskip("django")
    return list(embedded_documents())


def characters(documents: list[Document]) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for document in documents:
        sizes[document.source] += len(document.text) + len(document.target or "")
    return sizes


def test_each_language_has_enough_text(documents: list[Document]) -> None:
    sizes = characters(documents)
    assert set(sizes) == {"en", *LANGUAGES, "code", "math", "parallel"}
    assert len(LANGUAGES) == 14
    assert min(sizes.values()) >= 20_000
    assert 5_000_000 <= sizes.total() <= 10_000_000


def test_every_source_has_every_split(documents: list[Document]) -> None:
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for document in documents:
        assert document.split is not None
        sizes[document.split][document.source] += len(document.text)
    for split in ("validation", "test"):
        assert set(sizes[split]) == set(sizes["train"])
        assert min(sizes[split].values()) >= 500


def test_no_message_is_in_two_splits(documents: list[Document]) -> None:
    """Else a translation of every validation string would be in training."""
    splits: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        if document.doc_id.startswith("catalogue/en"):
            for line in document.text.splitlines():
                splits[" ".join(line.lower().split())].add(str(document.split))
    long = {line: found for line, found in splits.items() if len(line) > 40}
    assert len(long) > 500
    assert [line for line, found in long.items() if len(found) > 1] == []


def test_pairs_correspond_line_by_line(documents: list[Document]) -> None:
    pairs = [d for d in documents if d.source == "parallel"]
    assert {d.target_lang for d in pairs} == set(LANGUAGES)
    equal = sum(d.text.count("\n") == (d.target or "").count("\n") for d in pairs)
    assert equal > 0.9 * len(pairs)


def test_code_and_english_documentation_come_from_different_modules(documents: list[Document]) -> None:
    def modules(kind: str) -> set[str]:
        names = (d.doc_id for d in documents if d.doc_id.startswith(kind) and d.lang in ("en", "code"))
        return {name.split("/", 1)[1].rsplit("/", 1)[0] for name in names}

    code, text = modules("code/"), modules("docstrings/")
    assert code and text and not code & text


def test_documents_are_the_same_every_time(documents: list[Document]) -> None:
    embedded._all_documents.cache_clear()
    assert list(embedded_documents()) == documents
    assert len({d.doc_id for d in documents}) == len(documents)
    assert embedded_fingerprint() == embedded_fingerprint()


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "_PACKAGES", ("django", "no_such_package"))
    with pytest.raises(DataError, match=r"needs no_such_package: pip install 'euro_lightning\[quickstart\]'"):
        list(embedded_documents())


def test_unusable_entries_of_a_catalogue_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "x.po"
    path.write_text(
        'msgid ""\nmsgstr "header"\n\n'
        'msgid "Good"\nmsgstr ""\n"Gut \\"so\\"\\n"\n"weiter"\n\n'
        '#, fuzzy\nmsgid "Maybe"\nmsgstr "Vielleicht"\n\n'
        'msgid "Untranslated"\nmsgstr ""\n\n'
        'msgid "Same"\nmsgstr "Same"\n\n'
        '#~ msgid "Old"\n#~ msgstr "Alt"\n\n'
        '#. Default: "The title"\nmsgid "label_title"\nmsgstr "Der Titel"\n\n'
        'msgid "label_nothing"\nmsgstr "Nichts"\n\n'
        'msgid "%d day"\nmsgid_plural "%d days"\nmsgstr[0] "%d Tag"\nmsgstr[1] "%d Tage"\n',
        encoding="utf-8",
    )
    found = [(m.english, m.translation) for m in read_catalogue(path, "django")]
    assert found == [("Good", 'Gut "so"\nweiter'), ("The title", "Der Titel")]
