"""What keys and values a configuration may have, as the classes declare them."""

import dataclasses
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union

from euro_lightning.errors import nearest

SHORTHANDS = {"model.encoder": "preset"}
"""Mappings that may be written as one string: which of their keys the string is."""


def fields_of(cls: Any) -> dict[str, tuple[Any, bool]]:
    """Type of each parameter of a class, and whether it must be given."""
    target = cls if dataclasses.is_dataclass(cls) else cls.__init__
    hints = typing.get_type_hints(target)
    parameters = inspect.signature(cls.__init__).parameters
    return {
        name: (hints.get(name, Any), parameter.default is parameter.empty)
        for name, parameter in parameters.items()
        if name != "self" and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def _is_section(annotation: Any) -> bool:
    """Whether a type is a class whose parameters are keys."""
    return inspect.isclass(annotation) and (
        dataclasses.is_dataclass(annotation)
        or annotation.__module__.startswith(("euro_lightning", "lightning"))
    )


def annotation_at(key: str, schema: Mapping[str, Any]) -> tuple[Any, str | None]:
    """The type at a dotted key, or what is wrong with the key."""
    current: Any = dict(schema)
    path = ""
    for part in key.split("."):
        options = _children(current)
        where = f"{path}.{part}" if path else part
        if options is None:
            return Any, f"--{key}: {path} has no keys below it"
        if "*" not in options and part not in options:
            return Any, unknown_key(where, part, options)
        current = options.get(part, options.get("*", Any))
        path = where
    return current, None


def _children(annotation: Any) -> dict[str, Any] | None:
    """Types of the keys below a type; "*" for any key; None when there are none."""
    if isinstance(annotation, dict):
        return annotation
    if annotation is Any or annotation is dict:
        return {"*": Any}
    if _is_section(annotation):
        return {name: kind for name, (kind, _) in fields_of(annotation).items()}
    origin = typing.get_origin(annotation)
    if origin in (dict, Mapping) or (inspect.isclass(origin) and issubclass(origin, Mapping)):
        return {"*": typing.get_args(annotation)[1]}
    if origin in (Union, types.UnionType):
        found = [c for c in map(_children, typing.get_args(annotation)) if c is not None]
        return {key: kind for options in found for key, kind in options.items()} or None
    return None


def unknown_key(where: str, key: str, options: Iterable[str]) -> str:
    """The line about a key that does not exist."""
    valid = sorted(options)
    hint = nearest(key, valid) or f"; valid are {', '.join(valid)}"
    return f"unknown key {where!r}{hint}"


def check_tree(tree: dict[str, Any], schema: Mapping[str, Any], path: str) -> list[str]:
    """Unknown keys and wrong values of a mapping."""
    problems = []
    for key, value in tree.items():
        where = f"{path}.{key}" if path else str(key)
        if key not in schema:
            problems.append(unknown_key(where, str(key), schema))
        else:
            problems += check(value, schema[key], where)
    return problems


def check(value: Any, annotation: Any, where: str) -> list[str]:
    """What is wrong with a value of a declared type, one line each."""
    if annotation is Any:
        return []
    if where in SHORTHANDS and isinstance(value, str):
        return []
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        attempts = [check(value, option, where) for option in arguments]
        if any(not attempt for attempt in attempts):
            return []
        for option, attempt in zip(arguments, attempts, strict=True):
            if isinstance(value, dict) and _children(option) is not None:
                return attempt
        return [_mismatch(value, annotation, where)]
    if origin is Literal:
        if value in arguments:
            return []
        options = ", ".join(map(str, arguments))
        return [f"{where} is {value!r}: choose one of {options}{nearest(str(value), map(str, arguments))}"]
    if isinstance(value, dict) and (children := _children(annotation)) is not None:
        if "*" in children:
            return [p for k, v in value.items() for p in check(v, children["*"], f"{where}.{k}")]
        problems = check_tree(value, children, where)
        required = fields_of(annotation) if _is_section(annotation) else {}
        missing = [name for name, (_, needed) in required.items() if needed and name not in value]
        return problems + [f"{where}.{name} is missing" for name in missing if "." in where]
    if origin in (list, tuple) and isinstance(value, list | tuple):
        return [p for i, v in enumerate(value) for p in check(v, arguments[0], f"{where}[{i}]")]
    return [] if _fits(value, annotation) else [_mismatch(value, annotation, where)]


def _fits(value: Any, annotation: Any) -> bool:
    if annotation in (None, type(None)):
        return value is None
    if annotation is bool:
        return isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation in (str, Path):
        return isinstance(value, str)
    return not (_children(annotation) is not None or typing.get_origin(annotation) in (list, tuple))


def wants_text(annotation: Any) -> bool:
    """Whether a value is text and nothing else, so that `--name 5` stays text."""
    options = (
        typing.get_args(annotation)
        if typing.get_origin(annotation) in (Union, types.UnionType)
        else (annotation,)
    )
    return all(option in (str, Path, type(None)) for option in options) and options != (type(None),)


def _mismatch(value: Any, annotation: Any, where: str) -> str:
    return f"{where} is {value!r}: it must be {describe(annotation)}"


def describe(annotation: Any) -> str:
    """A type in words."""
    names = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "null"}
    if annotation in names:
        return names[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(option) for option in arguments)
    if origin in (list, tuple):
        return f"a list of {describe(arguments[0])}"
    if origin is Literal:
        return "one of " + ", ".join(map(str, arguments))
    if (children := _children(annotation)) is not None:
        return "a mapping" + ("" if "*" in children else f" with the keys {', '.join(children)}")
    return str(annotation)


def construct(annotation: Any, value: Any) -> Any:
    """An object of a declared type from plain mappings and lists that `check` found nothing wrong with."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        fitting = [option for option in arguments if not check(value, option, "")]
        return construct(fitting[0], value) if fitting else value
    if dataclasses.is_dataclass(annotation) and isinstance(value, Mapping):
        kinds = fields_of(annotation)
        return annotation(**{key: construct(kinds[key][0], inner) for key, inner in value.items()})  # type: ignore[operator]
    if origin is dict and isinstance(value, Mapping):
        return {key: construct(arguments[1], inner) for key, inner in value.items()}
    if origin is list and isinstance(value, list | tuple):
        return [construct(arguments[0], inner) for inner in value]
    return float(value) if annotation is float and isinstance(value, int) else value
