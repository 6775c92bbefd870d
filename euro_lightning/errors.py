"""The errors that a user can mend.

Everything that a wrong command, file or configuration can cause is raised as a `UserError`
whose text is one line: what is wrong, where, and how to mend it. The command table prints
that line and exits with `exit_code`; a traceback is reserved for our own mistakes.
"""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the user gave us; the message is one line."""

    exit_code = 1


class ConfigError(UserError):
    """A mistake in a configuration or on the command line."""

    exit_code = 2


class DataError(UserError):
    """A corpus, tokenizer or token store that cannot be used."""


class Interrupted(UserError):
    """The run was stopped from outside and can be continued."""

    exit_code = 130


def nearest(name: str, valid: Iterable[str]) -> str:
    """The hint that ends an error about an unknown name, or an empty string.

    >>> nearest("mixtrue", ["mixture", "lengths"])
    "; did you mean 'mixture'?"
    """
    close = difflib.get_close_matches(str(name), list(valid), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def raise_all(problems: Iterable[str], error: type[UserError] = ConfigError) -> None:
    """Raises all problems as one error, or returns when there is none."""
    found = list(dict.fromkeys(problems))
    if found:
        raise error(" | ".join(found))
