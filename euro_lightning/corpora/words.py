"""Words for filters that count them: of any script, without a model or a download."""

from functools import cache
from typing import Any

import regex

from euro_lightning.errors import nearest

_WORD = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]"
    r"|[\p{L}\p{M}\p{N}]+(?:['’\-][\p{L}\p{M}\p{N}]+)*"
    r"|[^\s\p{L}\p{M}\p{N}]+"
)


def words(text: str) -> list[str]:
    """Words and signs; in scripts without spaces every character is a word."""
    found: list[str] = _WORD.findall(text)
    return found


@cache
def word_tokenizer() -> Any:
    """`words` as datatrove's filters want it: theirs need a model for each language."""
    from datatrove.utils.word_tokenizers import WordTokenizer

    class Words(WordTokenizer):  # type: ignore[misc]
        def word_tokenize(self, text: str) -> list[str]:
            return words(text)

        def sent_tokenize(self, text: str) -> list[str]:
            return text.splitlines()

        def span_tokenize(self, text: str) -> list[tuple[int, int]]:
            return [match.span() for match in _WORD.finditer(text)]

    return Words()


def has_stop_words(lang: str) -> bool:
    """Whether there is a list for a language."""
    import stopwordsiso

    return lang.split("-")[0] in stopwordsiso.langs()


def no_stop_words(lang: str, key: str) -> str:
    """The line about a language without a list."""
    import stopwordsiso

    return f"{key}: there is no list of stop words for {lang!r}{nearest(lang, stopwordsiso.langs())}; give stop_words"


@cache
def stop_words(lang: str) -> frozenset[str]:
    """Very frequent words of a language, in lower case (the stopwords-iso collection)."""
    import stopwordsiso

    return frozenset(word.casefold() for word in stopwordsiso.stopwords(lang.split("-")[0]))
