"""Configuration files and the command line as one checked tree, before anything heavy runs.

Files are merged from left to right, then the overrides are applied, then every key and value
is compared with what the classes declare. All problems are found before the first is
reported, and an unknown key names the nearest valid one.
"""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Union

import yaml

from euro_lightning.errors import ConfigError, nearest, raise_all

Tree = dict[str, Any]

SHORTHANDS = {"model.encoder": "preset"}
"""Mappings that may be written as one string: which of their keys the string is."""


class _Loader(yaml.SafeLoader):
    """YAML that reads 2e-3 as a number and refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is given twice (line {line})"
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9][0-9_]*)(?:\.[0-9_]*)?[eE][-+]?[0-9]+$"),
    list("-+0123456789"),
)


def read_yaml(text: str, where: str) -> Any:
    """Parses YAML; a mistake in it is one line with its place."""
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{where}{place}: not valid YAML: {problem}") from None


def read_file(path: str) -> Tree:
    """One configuration file."""
    file = Path(path)
    if not file.is_file():
        folder = file.parent if file.parent.is_dir() else Path()
        others = [str(p) for p in sorted(folder.glob("*.yaml"))]
        raise ConfigError(f"-c {path}: no such file{nearest(path, others)}")
    try:
        tree = read_yaml(file.read_text(encoding="utf-8"), path)
    except UnicodeDecodeError:
        raise ConfigError(f"-c {path}: not a text file; it should be YAML") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"-c {path}: holds no mapping of keys to values")
    return tree


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys; lists stay values."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def split_arguments(arguments: Iterable[str]) -> tuple[list[str], list[tuple[str, str | None]]]:
    """Configuration files and overrides, in order.

    An override is `--key value`, `--key=value`, or `--key` alone for true.
    """
    files: list[str] = []
    overrides: list[tuple[str, str | None]] = []
    pending = list(arguments)
    while pending:
        word = pending.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("-") or name in ("-", "--"):
            raise ConfigError(f"{word!r} is not expected here: give -c FILE or --key value")
        if name in ("-c", "--config"):
            if overrides:
                raise ConfigError(
                    f"--{overrides[0][0]} stands before {name}: overrides follow the files that they change"
                )
            if not equals and not pending:
                raise ConfigError(f"{name} needs a file")
            files.append(value if equals else pending.pop(0))
            continue
        if not name.startswith("--"):
            raise ConfigError(f"unknown option {name}{nearest(name, ['-c', '--config'])}")
        given: str | None = value if equals else None
        if not equals and pending and not re.match(r"--?[A-Za-z]", pending[0]):
            given = pending.pop(0)
        overrides.append((name[2:], given))
    return files, overrides


def merge(base: Tree, other: Tree, path: str = "") -> Tree:
    """`base` changed by `other`: mappings key by key, everything else replaced."""
    merged = dict(base)
    for key, value in other.items():
        where = f"{path}.{key}" if path else str(key)
        old = merged.get(key)
        if isinstance(value, dict) and isinstance(old, str) and where in SHORTHANDS:
            old = {SHORTHANDS[where]: old}
        merged[key] = merge(old, value, where) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def load(arguments: Iterable[str], schema: Mapping[str, Any], defaults: Tree | None = None) -> Tree:
    """The configuration that arguments describe.

    Args:
        arguments: command line without the command.
        schema: type of each top-level key; a class stands for the parameters of its constructor.
        defaults: what stands before the first file.

    Raises:
        ConfigError: all that is wrong, in one line.
    """
    files, overrides = split_arguments(arguments)
    tree: Tree = dict(defaults or {})
    for file in files:
        tree = merge(tree, read_file(file))
    problems = check_tree(tree, schema, "")
    for key, text in overrides:
        annotation, problem = _annotation_at(key, schema)
        if problem:
            problems.append(problem)
            continue
        value: Any = True if text is None else text
        if text is not None and not _wants_text(annotation):
            value = read_yaml(text, f"--{key}")
        change: Any = value
        for part in reversed(key.split(".")):
            change = {part: change}
        tree = merge(tree, change)
        problems += check(value, annotation, key)
    raise_all(problems)
    return tree


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


def _annotation_at(key: str, schema: Mapping[str, Any]) -> tuple[Any, str | None]:
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


def check_tree(tree: Tree, schema: Mapping[str, Any], path: str) -> list[str]:
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


def _wants_text(annotation: Any) -> bool:
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
