"""Translation catalogues of installed packages: the same short texts in many languages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from euro_lightning.data.documents import split_of_key

SPLIT_SHARES = (0.05, 0.05)
"""Shares of the messages that validate and test, in every language alike."""

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True)
class Message:
    """One translated entry of a catalogue."""

    english: str
    translation: str
    package: str
    """Which package's catalogue it is from."""

    @property
    def split(self) -> str:
        """The split of the English text, and so of all its translations."""
        return split_of_key("message " + " ".join(self.english.lower().split()), *SPLIT_SHARES)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), text)


def read_catalogue(path: Path, package: str) -> Iterator[Message]:
    """The usable messages of a GNU gettext .po file, in order.

    Left out are fuzzy, obsolete, empty, untranslated and plural entries. Where the message id is a
    key such as label_title, the English text is the `Default:` of the extracted comment, and
    without one the entry is left out.
    """
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        comment: list[str] = []
        parts: dict[str, str] = {}
        current, fuzzy = "", False
        for line in block.splitlines():
            if line.startswith("#,"):
                fuzzy = fuzzy or "fuzzy" in line
            elif line.startswith("#."):
                comment.append(line[2:])
            elif line and not line.startswith("#"):
                word, _, rest = line.partition(" ")
                if not word.startswith('"'):
                    current = word
                found = _QUOTED.search(rest if not word.startswith('"') else line)
                parts[current] = parts.get(current, "") + (_unescape(found[1]) if found else "")
        identity, translation = parts.get("msgid", ""), parts.get("msgstr", "")
        english = _default(comment) or ("" if _is_key(identity) else identity)
        if fuzzy or not english.strip() or not translation.strip() or translation in (english, identity):
            continue
        yield Message(english.strip(), translation.strip(), package)


def _default(comment: list[str]) -> str:
    text = " ".join(comment)
    place = text.find("Default:")
    return "".join(_unescape(piece) for piece in _QUOTED.findall(text[place:])) if place >= 0 else ""


def _is_key(identity: str) -> bool:
    return re.fullmatch(r"[a-z0-9]+([_.\-:/][a-zA-Z0-9_.\-:/]*)+", identity) is not None
