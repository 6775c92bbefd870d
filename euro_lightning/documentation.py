"""The texts below the fields of configuration classes, as help."""

import ast
import dataclasses
import inspect
import textwrap
import typing
from typing import Any

from euro_lightning.schema import describe, fields_of


def field_texts(cls: type) -> dict[str, str]:
    """The string below each field of a dataclass, which Python itself does not keep."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base is cls or dataclasses.is_dataclass(base):
            texts |= _own_texts(base)
    return texts


def _own_texts(cls: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    texts: dict[str, str] = {}
    name = ""
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
            texts[name] = " ".join(str(node.value.value).split())
    return texts


def describe_fields(cls: type, prefix: str) -> str:
    """Every field of a dataclass with its key, type, default and meaning."""
    texts = field_texts(cls)
    parameters = inspect.signature(cls).parameters
    lines = []
    for name, (annotation, required) in fields_of(cls).items():
        default = parameters[name].default
        plain = required or not isinstance(default, str | int | float | bool | type(None) | tuple)
        note = "required" if required else "" if plain else f"default: {default}"
        kind = describe(annotation) if typing.get_origin(annotation) is not dict else "a mapping"
        head = f"  {prefix}{'.' if prefix else ''}{name} ({kind}{', ' if note else ''}{note})"
        lines += [
            head,
            *textwrap.wrap(texts.get(name, ""), 100, initial_indent="      ", subsequent_indent="      "),
        ]
    return "\n".join(lines)


def sections(parts: dict[str, Any]) -> str:
    """Help of several dataclasses, each under the key where it is used."""
    return "\n\n".join(f"{title}:\n{describe_fields(cls, title)}" for title, cls in parts.items())
