"""BERTomelo's filter: a document is cut into paragraphs, and those that read like prose are kept."""

from collections.abc import Iterator
from dataclasses import dataclass

from euro_lightning.corpora.words import has_stop_words, no_stop_words, stop_words
from euro_lightning.data.documents import UNSPACED


@dataclass(frozen=True)
class Paragraphs:
    """Which paragraphs are kept, each as a document of its own (BERTomelo's code, phase 1)."""

    minimum_words: int = 20
    """Fewest words; words stand between white space of any kind."""

    maximum_words: int = 1024
    """Most words."""

    minimum_mean_length: float = 2.0
    """Least mean length of a word in characters; a mean of exactly this is kept."""

    maximum_mean_length: float = 15.0
    """Greatest mean length of a word in characters; a mean of exactly this is kept."""

    minimum_stop_words: int = 2
    """Fewest stop words; case is ignored, a word counts as often as it stands there."""

    stop_words: list[str] | None = None
    """The stop words; by default the stopwords-iso list of the language (BERTomelo: NLTK's)."""

    def problems(self, where: str, lang: str | None) -> list[str]:
        """What is wrong with this filter for a language, one line each."""
        found = []
        if not 0 < self.minimum_words <= self.maximum_words:
            found.append(
                f"{where}: minimum_words {self.minimum_words} and maximum_words {self.maximum_words} admit nothing"
            )
        if not 0 <= self.minimum_mean_length <= self.maximum_mean_length:
            found.append(f"{where}: minimum_mean_length is above maximum_mean_length")
        if lang is None:
            return found
        if lang.split("-")[0] in UNSPACED:
            found.append(
                f"{where} counts words, and {lang!r} is written without spaces: use minimum_characters,"
                " language and duplicates instead"
            )
        elif self.stop_words is None and self.minimum_stop_words and not has_stop_words(lang):
            found.append(no_stop_words(lang, where))
        return found


def split_paragraphs(text: str, rule: Paragraphs, lang: str) -> Iterator[tuple[str, str | None]]:
    """Each paragraph with the reason why it is dropped, or None when it is kept.

    A paragraph is what stands between line feeds; empty ones are passed over.
    """
    known = stop_words(lang) if rule.stop_words is None else {word.casefold() for word in rule.stop_words}
    for line in text.split("\n"):
        words = line.split()
        if words:
            yield line.strip(), _reason(words, rule, known)


def _reason(words: list[str], rule: Paragraphs, known: frozenset[str] | set[str]) -> str | None:
    if not rule.minimum_words <= len(words) <= rule.maximum_words:
        return "paragraph_short" if len(words) < rule.minimum_words else "paragraph_long"
    if not rule.minimum_mean_length <= sum(map(len, words)) / len(words) <= rule.maximum_mean_length:
        return "paragraph_word_length"
    if sum(word.casefold() in known for word in words) < rule.minimum_stop_words:
        return "paragraph_stop_words"
    return None
