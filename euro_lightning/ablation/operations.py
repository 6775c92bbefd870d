"""What a sweep changes, by name: a question of the papers as one value, expanded to keys of an experiment.

A name may be followed by `@PHASE`; without it, mixture, masking and lengths change the last phase, quality and
languages all phases. `OPERATIONS` lists them; their docstrings say what a value may be and what stays.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from euro_lightning.ablation.mixtures import ENGLISH_AS_PUBLISHED, equal_tokens, share_of, with_quality
from euro_lightning.ablation.registry import OPERATIONS, Changes, Operation, Place, Tree, operation
from euro_lightning.ablation.shapes import equal_parameters, resized
from euro_lightning.ablation.texts import read_lengths, read_masking
from euro_lightning.cli import schema_of
from euro_lightning.data.tokenizer import TokenizerConfig
from euro_lightning.encoder.config import PRESETS, EncoderConfig, encoder_config
from euro_lightning.errors import ConfigError, nearest, raise_all
from euro_lightning.schema import annotation_at, check
from euro_lightning.settings import flatten


def expand(key: str, value: Any, config: Tree) -> Changes:
    """What a key and a value of a sweep's space change in an experiment.

    Args:
        key: a dotted key of the experiment, or a named operation.
        value: the setting.
        config: the experiment as a tree, base files and overrides merged.

    Raises:
        ConfigError: there is no such key or operation, or the value does not fit.
    """
    name, _, phase = key.partition("@")
    if name not in OPERATIONS:
        schema = schema_of("fit")
        annotation, problem = annotation_at(key, schema)
        if problem and key.split(".")[0] in schema:
            raise ConfigError(problem)
        if problem:
            raise ConfigError(
                f"{key!r} is neither a key of an experiment nor a named operation"
                f" ({', '.join(OPERATIONS)}){nearest(key, OPERATIONS)}"
            )
        raise_all(check(value, annotation, key))
        return {key: value}
    found = OPERATIONS[name]
    raise_all(check(value, found.kind, key))
    return found.function(value, Place(config, _phases(found, key, phase, config), key))


def expand_all(setting: Mapping[str, Any], config: Tree) -> Changes:
    """The changes of all keys of a setting, which must not contradict each other.

    Raises:
        ConfigError: see `expand`; or two of them give one key different values.
    """
    found: Changes = {}
    origin: dict[str, str] = {}
    for key, value in setting.items():
        for name, change in expand(key, value, config).items():
            if name in found and found[name] != change:
                raise ConfigError(
                    f"{origin[name]} and {key} both set {name}, to {found[name]!r} and {change!r}: vary one of"
                    " them in a sweep of its own"
                )
            found[name], origin[name] = change, key
    return found


def _phases(found: Operation, key: str, phase: str, config: Tree) -> tuple[str, ...]:
    known = tuple(config.get("data", {}).get("phases", {}))
    if found.phases == "none":
        if phase:
            raise ConfigError(f"{key}: this operation belongs to no phase; write {key.partition('@')[0]}")
        return ()
    if phase:
        if phase not in known:
            raise ConfigError(
                f"{key}: no phase {phase!r}; phases are {', '.join(known)}{nearest(phase, known)}"
            )
        return (phase,)
    return known if found.phases == "all" else known[-1:]


def _changed(place: Place, group: str, share: float, scaled: str) -> Changes:
    """One share of the mixture changed; see `data.composition.change`."""
    if not 0 <= share <= 1:
        raise ConfigError(f"{place.key} is {share}: a share lies between 0 and 1")
    changes: Changes = {}
    for name in place.phases:
        changes[f"data.phases.{name}.change.{group}"] = share
        changes[f"data.phases.{name}.scaled"] = scaled
    return changes


@operation("mixture.english", float, "last")
def english(value: float, place: Place) -> Changes:
    """Share of English; the other languages make room, code, math and parallel text stay (unconfounded)."""
    return _changed(place, "english", value, "other_languages")


@operation("mixture.english_as_published", float, "last")
def english_as_published(value: float, place: Place) -> Changes:
    """A row of EuroBERT's table 6, by its share of English: 0.46 (the reference), 0.26 or 0.17.

    The rows with less English have less code and math, too, so what they show is not the effect of English
    alone. Instruction data and sources that the experiment's mixture does not name are left out, and the rest
    is scaled to sum to one; sources without a column in the table, such as Vietnamese, get nothing.
    """
    if value not in ENGLISH_AS_PUBLISHED:
        rows = ", ".join(map(str, ENGLISH_AS_PUBLISHED))
        raise ConfigError(f"{place.key} is {value}: the paper has {rows}; mixture.english takes any share")
    changes: Changes = {}
    for name in place.phases:
        shares = share_of(ENGLISH_AS_PUBLISHED[value], place.mixture(name), f"data.phases.{name}.mixture")
        changes |= {f"data.phases.{name}.mixture.{source}": share for source, share in shares.items()}
    return changes


@operation("mixture.code", float, "last")
def code(value: float, place: Place) -> Changes:
    """Share of code; everything else is scaled."""
    return _changed(place, "code", value, "rest")


@operation("mixture.math", float, "last")
def math(value: float, place: Place) -> Changes:
    """Share of mathematics; everything else is scaled."""
    return _changed(place, "math", value, "rest")


@operation("mixture.parallel", float, "last")
def parallel(value: float, place: Place) -> Changes:
    """Share of parallel text; everything else is scaled."""
    return _changed(place, "parallel", value, "rest")


@operation("quality", list[int] | Literal["all"] | None, "all")
def quality(value: list[int] | Literal["all"] | None, place: Place) -> Changes:
    """Quality buckets to draw from, such as [3, 4]; all (or null) draws from every document.

    It holds for every language and group of languages of the mixture, and for code, math and parallel text only
    where the experiment names buckets for them: corpora score languages.
    """
    buckets = value if isinstance(value, list) else []
    if any(bucket not in (1, 2, 3, 4) for bucket in buckets):
        raise ConfigError(f"{place.key} is {buckets}: buckets are 1, 2, 3 and 4")
    return {
        f"data.phases.{name}.mixture.{source}": entry
        for name in place.phases
        for source, entry in with_quality(place.mixture(name), buckets).items()
    }


@operation("languages", list[str], "all")
def languages(value: list[str], place: Place) -> Changes:
    """Which languages are trained on, at equal tokens of the first: [fr], or [fr, languages] for all.

    The others get no share, and neither do code, math and parallel text unless they are named; those that
    remain keep their proportions. The phase has as many tokens as it takes for the first language to have as
    many as in the experiment (to one token; a run is rounded up to whole global batches).
    """
    changes: Changes = {}
    for name in place.phases:
        where = f"data.phases.{name}"
        shares, tokens = equal_tokens(place.mixture(name), value, place.phase(name)["tokens"], where)
        changes |= {f"{where}.mixture.{source}": share for source, share in shares.items()}
        changes[f"{where}.tokens"] = tokens
    return changes


@operation("masking", int | float | str, "last")
def masking(value: int | float | str, place: Place) -> Changes:
    """A schedule of the masking ratio in percent, over the same tokens: 50 (constant), 50->10 and 30->15->5
    (steps of equal length), linear 30->15 (or cosine, 1-sqrt)."""
    ratio = read_masking(value, place.key)
    return {f"data.phases.{name}.masking_ratio": ratio for name in place.phases}


@operation("lengths", int | str, "last")
def lengths(value: int | str, place: Place) -> Changes:
    """A length policy: fixed 2048, random 12-8192, or concatenated 2048; a number is a fixed length."""
    policy = read_lengths(value, place.key)
    return {
        f"data.phases.{name}.lengths.{key}": part for name in place.phases for key, part in policy.items()
    }


def _encoder(place: Place) -> EncoderConfig:
    """The experiment's encoder with its vocabulary."""
    encoder = encoder_config((place.config.get("model") or {}).get("encoder") or "tiny")
    if encoder.vocabulary is not None:
        return encoder
    tokenizer = (place.config.get("data") or {}).get("tokenizer") or {}
    if tokenizer.get("path"):
        raise ConfigError(
            f"{place.key}: state model.encoder.vocabulary, for the tokenizer comes from a file and parameters"
            " are to be compared"
        )
    return replace(encoder, vocabulary=tokenizer.get("vocabulary", TokenizerConfig.vocabulary))


def _shape_changes(found: EncoderConfig) -> Changes:
    names = ("layers", "width", "heads", "key_value_heads", "feed_forward")
    return {f"model.encoder.{name}": getattr(found, name) for name in names}


@operation("shape", int, "none")
def shape(value: int, place: Place) -> Changes:
    """Number of layers, at equal parameters besides those of the vocabulary (within 1%).

    The width changes by whole heads of the same size so that the MLP keeps its proportion as nearly as can be,
    and the MLP's inner width makes up the rest; see `shapes.equal_parameters`.
    """
    base = _encoder(place)
    if value < 1:
        raise ConfigError(f"{place.key} is {value}: it must be at least 1")
    wanted = replace(base, layers=value)
    what = f"{place.key} {value}"
    return _shape_changes(
        base if value == base.layers else equal_parameters(base, wanted, core=True, what=what)
    )


@operation("size", str, "none")
def size(value: str, place: Place) -> Changes:
    """An encoder's size: layers and width as 4x192, with heads of the same size and an MLP in the same
    proportion, or the name of a preset. Nothing is equal but the tokens."""
    if value in PRESETS:
        return {"model.encoder.preset": value}
    match = re.fullmatch(r"(\d+)x(\d+)", value)
    base = _encoder(place)
    if match is None or int(match[2]) % base.head_size:
        raise ConfigError(
            f"{place.key} is {value!r}: give layers and width as 4x192, the width a multiple of the head size"
            f" {base.head_size}, or a preset ({', '.join(PRESETS)}){nearest(value, PRESETS)}"
        )
    return _shape_changes(resized(base, int(match[1]), int(match[2])))


@operation("vocabulary", int, "none")
def vocabulary(value: int, place: Place) -> Changes:
    """Tokens of the tokenizer and rows of the encoder, at equal parameters in all (within 1%).

    The layers stay; what a larger vocabulary takes is taken from the width of the MLP and, by whole heads, of
    the encoder; see `shapes.equal_parameters`. Losses per token do not compare across vocabularies, for their
    tokens hold different amounts of text: compare scores of tasks, or the loss per byte.
    """
    base = _encoder(place)
    wanted = replace(base, vocabulary=value)
    what = f"{place.key} {value}"
    same = value == base.vocabulary
    found = base if same else equal_parameters(base, wanted, core=False, what=what)
    return {
        "data.tokenizer.vocabulary": value,
        "model.encoder.vocabulary": value,
        **_shape_changes(found),
    }


@operation("tiling", bool, "none")
def tiling(value: bool, place: Place) -> Changes:
    """Whether the encoder grows out of the smaller one that the sweep's `init_from` names, or starts at
    random. What the smaller one cost comes on top."""
    source = place.config.get("init_from")
    if value and source is None:
        raise ConfigError(f"{place.key} is true: init_from must name the smaller encoder")
    return {"init_from": None, "weight_tiling.source": source if value else None}


def describe(value: Any) -> str:
    """A value as a short label: what tables, figures and Optuna show."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {describe(inner)}" for key, inner in flatten(value).items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "+".join(map(describe, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
