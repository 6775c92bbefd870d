"""Configuration files and the command line as one checked tree, before anything heavy runs.

Files are merged from left to right, then the overrides are applied, then every key and value
is compared with what the classes declare. All problems are found before the first is
reported, and an unknown key names the nearest valid one.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from euro_lightning.errors import ConfigError, nearest, raise_all
from euro_lightning.schema import SHORTHANDS, annotation_at, check, check_tree, wants_text

Tree = dict[str, Any]


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


def nested(flat: Mapping[str, Any]) -> Tree:
    """Dotted keys as nested mappings, in their order."""
    tree: Tree = {}
    for key, value in flat.items():
        change: Any = value
        for part in reversed(key.split(".")):
            change = {part: change}
        tree = merge(tree, change)
    return tree


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
        annotation, problem = annotation_at(key, schema)
        if problem:
            problems.append(problem)
            continue
        value: Any = True if text is None else text
        if text is not None and not wants_text(annotation):
            value = read_yaml(text, f"--{key}")
        tree = merge(tree, nested({key: value}))
        problems += check(value, annotation, key)
    raise_all(problems)
    return tree
