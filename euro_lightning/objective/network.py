"""What is trained: an encoder of ours or a baseline of transformers, and the weights it starts with."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from euro_lightning.data.store import TOKENIZER
from euro_lightning.data.tokenizer import Tokenizer, load_tokenizer
from euro_lightning.encoder.baseline import BaselineMaskedLanguageEncoder
from euro_lightning.encoder.baseline_files import load_baseline
from euro_lightning.encoder.config import EncoderConfig, encoder_config
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.encoder.tiling import LayerMap, Rescale
from euro_lightning.errors import ConfigError, UserError
from euro_lightning.pretrained import adopt, differing_tokens, read_pretrained

Network = MaskedLanguageEncoder | BaselineMaskedLanguageEncoder


class NetworkPlan:
    """Which network to build once the tokenizer is known."""

    def __init__(self, encoder: str | Mapping[str, Any] | None, baseline: str | None) -> None:
        """
        Args:
            encoder: see `encoder_config`; None is tiny.
            baseline: see `load_baseline`; None builds the encoder.

        Raises:
            ConfigError: both are given, or there is no such encoder.
        """
        if encoder is not None and baseline is not None:
            raise ConfigError("model.encoder and model.baseline are both given: one of them is trained")
        self.config: EncoderConfig = encoder_config("tiny" if encoder is None else encoder)
        self.baseline = baseline

    def problems(self, tokenizer: Tokenizer, lengths: Mapping[str, int]) -> list[str]:
        """What does not fit, one line each.

        Args:
            tokenizer: the tokenizer.
            lengths: longest segment of each phase.
        """
        if self.baseline is not None:
            return []
        found = []
        vocabulary = self.config.vocabulary or tokenizer.vocabulary
        if vocabulary < tokenizer.vocabulary:
            found.append(
                f"model.encoder.vocabulary {vocabulary:,} is below the tokenizer's {tokenizer.vocabulary:,}"
            )
        return found + _too_long(lengths, self.config.max_length)

    def build(self, tokenizer: Tokenizer, lengths: Mapping[str, int], backend: str, seed: int) -> Network:
        """The network with its initial weights.

        Raises:
            UserError: a baseline cannot be loaded, or has another vocabulary or too few positions.
        """
        if self.baseline is not None:
            return _baseline(self.baseline, tokenizer, lengths, seed)
        config = replace(self.config, vocabulary=self.config.vocabulary or tokenizer.vocabulary)
        network = MaskedLanguageEncoder(config, backend)
        network.initialise(seed)
        return network


def _too_long(lengths: Mapping[str, int], longest: int) -> list[str]:
    return [
        f"data.phases.{name}.lengths.maximum {length:,} is above the encoder's max_length {longest:,}"
        for name, length in lengths.items()
        if length > longest
    ]


def _baseline(origin: str, tokenizer: Tokenizer, lengths: Mapping[str, int], seed: int) -> Network:
    model, folder = load_baseline(origin, "model.baseline", seed)
    network = BaselineMaskedLanguageEncoder(model)
    problems = _too_long(lengths, network.max_length)
    rows = int(model.config.vocab_size)
    if rows < tokenizer.vocabulary:
        problems.append(f"it has {rows:,} rows, the tokenizer {tokenizer.vocabulary:,} tokens")
    elif (folder / TOKENIZER).is_file():
        differing = differing_tokens(load_tokenizer(folder), tokenizer)
        if differing:
            problems.append(
                f"{differing:,} of its tokens are not this tokenizer's; give its own with data.tokenizer.path"
            )
    if problems:
        raise UserError(f"model.baseline {origin}: {'; '.join(problems)}")
    return network


@dataclass(frozen=True)
class Start:
    """The weights that a run starts with."""

    origin: str
    """See `read_pretrained`."""
    option: str
    """The option that it came from, for messages."""
    resize_vocabulary: bool = False
    """Whether the vocabularies may differ."""
    tiling: tuple[LayerMap, Rescale] | None = None
    """How a smaller encoder grows; None takes an encoder of the same size."""

    def apply(self, network: Network, tokenizer: Tokenizer, bases: tuple[float, float], seed: int) -> None:
        """Copies the weights into a network that is initialised, and tells of another rotary base.

        Args:
            network: what gets the weights.
            tokenizer: what its rows stand for.
            bases: rotary bases that training begins with.
            seed: of what is random about it.

        Raises:
            UserError: they cannot be read or do not fit.
        """
        if not isinstance(network, MaskedLanguageEncoder):
            raise ConfigError(f"{self.option} and model.baseline are both given: weights come from one place")
        found = read_pretrained(self.origin, self.option)
        if self.tiling is not None:
            found = found.grown(network.config, *self.tiling, seed)
        adopt(network, found, tokenizer, self.resize_vocabulary)
        kinds = ("rotary_base", "local_rotary_base") if network.config.has_local_layers else ("rotary_base",)
        for kind, before, now in zip(kinds, found.rotary_bases, bases, strict=False):
            if before != now:
                print(
                    f"{found.origin}: trained with {kind} {before:,g}, goes on with {now:,g}", file=sys.stderr
                )
