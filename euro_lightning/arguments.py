"""Arguments of the commands that train nothing: positional words, then --options, from a dataclass."""

import dataclasses
import textwrap
import typing
from collections.abc import Sequence
from typing import Any, TypeVar

import yaml

from euro_lightning.documentation import field_texts
from euro_lightning.errors import nearest, raise_all
from euro_lightning.schema import check, describe, fields_of, wants_text

Options = TypeVar("Options")


def parse(
    cls: type[Options], command: str, words: Sequence[str], positional: Sequence[str]
) -> Options | None:
    """The options of a command.

    Args:
        cls: a frozen dataclass; each field is documented below it.
        command: the command's name, for messages.
        words: what follows the command.
        positional: fields that are given without a name; a tuple takes all that are left.

    Returns:
        The options, or None when help was asked for and printed.

    Raises:
        ConfigError: all that is wrong, in one line.
    """
    if any(word in ("-h", "--help") for word in words):
        print(_help(cls, command, positional))
        return None
    declared = fields_of(cls)
    values: dict[str, Any] = {}
    problems: list[str] = []
    plain: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "-c" and "config" in declared:
            word = "--config"
        if not word.startswith("--"):
            plain.append(word)
            continue
        name, has_value, value = word[2:].partition("=")
        if name not in declared or name in positional:
            options = [option for option in declared if option not in positional]
            problems.append(f"{command}: unknown option --{name}{nearest(name, options)}")
            continue
        kind = declared[name][0]
        if kind is bool and not has_value and rest[:1] not in (["true"], ["false"]):
            values[name] = True
            continue
        if typing.get_origin(kind) is tuple:
            given = [value] if has_value else []
            while not has_value and rest and not rest[0].startswith("-"):
                given.append(rest.pop(0))
            if not given:
                problems.append(f"{command}: --{name} needs at least one value")
            values[name] = (*values.get(name, ()), *given)
            continue
        if not has_value and (not rest or rest[0].startswith("--")):
            problems.append(f"{command}: --{name} needs a value: {describe(kind)}")
            continue
        values[name] = _value(value if has_value else rest.pop(0), kind)
    for name in positional:
        if typing.get_origin(declared[name][0]) is tuple:
            values[name], plain = tuple(plain), []
        elif plain:
            values[name] = plain.pop(0)
        elif declared[name][1]:
            problems.append(f"{command}: {name.upper()} is missing")
    problems += [f"{command}: {word!r} is not expected here" for word in plain]
    for name, value in values.items():
        label = name.upper() if name in positional else f"--{name}"
        problems += check(value, declared[name][0], f"{command}: {label}")
    problems += [
        f"{command}: --{name} is missing"
        for name, (_, required) in declared.items()
        if required and name not in values and name not in positional
    ]
    raise_all([*problems, _usage(cls, command, positional)] if problems else [])
    return cls(**values)


def _value(text: str, kind: Any) -> Any:
    if wants_text(kind):
        return text
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value


def _usage(cls: type, command: str, positional: Sequence[str]) -> str:
    declared = fields_of(cls)
    parts = []
    for name in positional:
        many = typing.get_origin(declared[name][0]) is tuple
        parts.append(f"[{name.upper()} …]" if many else name.upper())
    parts += [
        f"--{name} VALUE{' …' * (typing.get_origin(kind) is tuple)}"
        for name, (kind, needed) in declared.items()
        if needed and name not in positional
    ]
    return f"usage: python -m euro_lightning {command} {' '.join(parts)} [--option value]..."


def _help(cls: type, command: str, positional: Sequence[str]) -> str:
    texts, declared = field_texts(cls), fields_of(cls)
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    lines = [_usage(cls, command, positional), "", " ".join((cls.__doc__ or "").split()), ""]
    for name in (*positional, *(name for name in declared if name not in positional)):
        kind, required = declared[name]
        head = name.upper() if name in positional else f"--{name}"
        note = "" if required or defaults[name] in ((), None) else f", default: {defaults[name]}"
        lines.append(f"  {head} ({describe(kind)}{note})")
        lines += textwrap.wrap(texts[name], 100, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)
