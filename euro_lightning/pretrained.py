"""Weights from elsewhere: a run, a checkpoint, a Hugging Face directory; and how they enter a network."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from euro_lightning.checkpoint import (
    check_shapes,
    find_weights,
    is_run,
    list_checkpoints,
    load_checkpoint,
    network_weights,
)
from euro_lightning.data.store import TOKENIZER
from euro_lightning.data.tokenizer import Tokenizer, load_tokenizer
from euro_lightning.encoder.config import EncoderConfig, encoder_config
from euro_lightning.encoder.directory import CONFIG, download, is_hub_name, read_directory
from euro_lightning.encoder.model import LOCAL_BASE, MaskedLanguageEncoder
from euro_lightning.encoder.tiling import LayerMap, Rescale, tile
from euro_lightning.errors import UserError

_FREE = ("vocabulary", "max_length", "attention_output_dropout", "initialisation", "initializer_std")
"""Fields of an encoder that do not change what its weights compute."""

_VOCABULARY = ("encoder.embedding.weight", "head.weight", "head.bias")


@dataclass(frozen=True)
class Pretrained:
    """Weights, and all that must be known to use them."""

    origin: str
    """What the user called it, for messages."""
    config: EncoderConfig
    rotary_bases: tuple[float, float]
    """Of the global and of the local layers, as last trained."""
    weights: dict[str, Tensor]
    """State dict of a `MaskedLanguageEncoder`."""
    tokenizer: Tokenizer | None
    """What its rows stand for; None where there is no tokenizer beside it."""
    tokens: int | None = None
    """Tokens trained on, where known."""

    def grown(self, target: EncoderConfig, layers: LayerMap, rescale: Rescale, seed: int) -> "Pretrained":
        """Tiled into a larger encoder with the vocabulary of this one.

        Raises:
            UserError: it is not whole, or cannot be tiled.
        """
        target = replace(target, vocabulary=self.config.vocabulary)
        with torch.device("meta"):
            check_shapes(MaskedLanguageEncoder(self.config), self.weights, self.origin)
        weights = tile(self.weights, self.config, target, layers, rescale, seed)
        return replace(self, config=target, weights=weights)


def read_pretrained(origin: str, option: str) -> Pretrained:
    """Weights by the name that a user gives them.

    Args:
        origin: a run folder (its last checkpoint), a checkpoint, a Hugging Face directory or Hub name.
        option: the option that it came from, for messages.

    Raises:
        UserError: there is nothing of the kind, or it is damaged.
    """
    folder = download(origin, option) if is_hub_name(origin) else Path(origin)
    if (folder / CONFIG).is_file() and not is_run(folder):
        return _of_directory(folder, f"{option} {origin}")
    return _of_checkpoint(find_weights(origin, option), option)


def _of_directory(folder: Path, origin: str) -> Pretrained:
    config, bases, weights = read_directory(folder, origin)
    tokenizer = load_tokenizer(folder) if (folder / TOKENIZER).is_file() else None
    return Pretrained(origin, config, bases, weights, tokenizer)


def _of_checkpoint(path: Path, option: str) -> Pretrained:
    content = load_checkpoint(path)
    facts, folder = content["euro_lightning"], path.parent.parent
    if "encoder" not in facts:
        raise UserError(
            f"{option} {path}: a baseline's checkpoint; export it, and give model.baseline the directory"
        )
    has_tokenizer = is_run(folder) and (folder / TOKENIZER).is_file()
    return Pretrained(
        origin=f"{option} {path}",
        config=encoder_config(facts["encoder"], f"{path}: encoder"),
        rotary_bases=(facts["rotary_base"], facts.get("local_rotary_base", LOCAL_BASE)),
        weights=network_weights(content),
        tokenizer=load_tokenizer(folder / TOKENIZER) if has_tokenizer else None,
        tokens=facts["tokens"],
    )


def adopt(network: MaskedLanguageEncoder, found: Pretrained, tokenizer: Tokenizer, resize: bool) -> None:
    """Copies weights into a network whose rows stand for the tokens of a tokenizer.

    Args:
        network: initialised; rows that the weights do not have keep their initial values.
        found: the weights, of the same shape but for the vocabulary.
        tokenizer: that of the network.
        resize: whether the vocabularies may differ; rows of tokens that both have are then copied.

    Raises:
        UserError: another encoder, or another vocabulary without `resize`.
    """
    others = different_fields(found.config, network.config)
    if others:
        raise UserError(f"{found.origin}: weights of another encoder: {'; '.join(others)}")
    weights = dict(found.weights)
    own, rows = network.state_dict(), network.config.vocabulary or 0
    differing = differing_rows(found, tokenizer, rows)
    if differing and not resize:
        raise UserError(
            f"{found.origin}: {differing:,} of {rows:,} rows of its vocabulary differ from this tokenizer's;"
            " give its tokenizer with data.tokenizer.path, or --resize_vocabulary copies the rows of tokens"
            " that both have"
        )
    if differing:
        if found.tokenizer is None:
            raise UserError(f"{found.origin}: there is no {TOKENIZER} that says what its rows stand for")
        mine, theirs = matching_rows(found.tokenizer, tokenizer)
        for name in _VOCABULARY:
            if name in own and name in weights and own[name].shape[1:] == weights[name].shape[1:]:
                resized = own[name].clone()
                resized[mine] = weights[name][theirs].to(resized)
                weights[name] = resized
        print(
            f"{found.origin}: {len(mine):,} of {rows:,} rows of the vocabulary copied, the others are new",
            file=sys.stderr,
        )
    check_shapes(network, weights, found.origin)
    network.load_state_dict(weights)


def different_fields(source: EncoderConfig, target: EncoderConfig) -> list[str]:
    """What two encoders compute differently though their tensors might fit, one text each."""
    return [
        f"{name} is {getattr(source, name)} there and {getattr(target, name)} here"
        for name in source.differing(target, _FREE)
    ]


def differing_rows(found: Pretrained, tokenizer: Tokenizer, rows: int) -> int:
    """How many of a network's rows stand for something else than those of the weights."""
    theirs = found.config.vocabulary or 0
    if found.tokenizer is None:
        if theirs == rows:
            print(
                f"warning: {found.origin} has no {TOKENIZER} beside it: whether its rows are those of this"
                " tokenizer cannot be checked",
                file=sys.stderr,
            )
        return abs(theirs - rows)
    differing = differing_tokens(found.tokenizer, tokenizer)
    return max(differing, abs(theirs - rows))


def differing_tokens(source: Tokenizer, target: Tokenizer) -> int:
    """How many token ids stand for different strings."""
    count = max(source.vocabulary, target.vocabulary)
    return sum(source.name_of(token) != target.name_of(token) for token in range(count))


def matching_rows(source: Tokenizer, target: Tokenizer) -> tuple[Tensor, Tensor]:
    """Rows of the target, and those of the source with the same token, int64 [N] each.

    Tokens are the same when their strings are, special ones when their roles are.
    """
    numbers = {source.name_of(token): token for token in range(source.vocabulary)}
    pairs = {
        token: numbers[name]
        for token in range(target.vocabulary)
        if (name := target.name_of(token)) in numbers
    }
    pairs |= dict(zip(target.roles, source.roles, strict=True))
    mine = sorted(pairs)
    return torch.tensor(mine), torch.tensor([pairs[token] for token in mine])


def run_checkpoints(origin: str, count: int) -> list[Path]:
    """The last checkpoints of a run, oldest first.

    Args:
        origin: a run folder, or a checkpoint in one, which is then the last.
        count: how many.

    Raises:
        UserError: not a run, or too few checkpoints.
    """
    last = find_weights(origin, "export")
    if not is_run(last.parent.parent):
        raise UserError(f"export {origin}: not a run folder and not a checkpoint in one")
    paths = [path for path in list_checkpoints(last.parent) if path <= last][-count:]
    if len(paths) < count:
        raise UserError(f"export {origin}: --average {count}, but there are {len(paths)} checkpoints")
    return paths


def read_average(paths: list[Path]) -> Pretrained:
    """The mean of checkpoints, with all else of the last.

    Raises:
        UserError: they are of different encoders.
    """
    last = paths[-1]
    found = _of_checkpoint(last, "export")
    if len(paths) == 1:
        return found
    sums = {name: torch.zeros(tensor.shape, dtype=torch.float64) for name, tensor in found.weights.items()}
    for path in paths:
        other = found if path == last else _of_checkpoint(path, "export")
        differing = different_fields(other.config, found.config)
        if differing or other.weights.keys() != sums.keys():
            raise UserError(f"export {path}: of another encoder than {last.name}")
        for name, tensor in other.weights.items():
            sums[name] += tensor
    mean = {name: (total / len(paths)).to(found.weights[name].dtype) for name, total in sums.items()}
    return replace(found, weights=mean)
