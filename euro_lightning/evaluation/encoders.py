"""Encoders to judge, by the name that a user gives them: runs, exports, baselines, random starts."""

import contextlib
import copy
import functools
import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from euro_lightning.checkpoint import check_shapes, find_weights, is_run, load_checkpoint, network_weights
from euro_lightning.data.store import TOKENIZER
from euro_lightning.data.tokenizer import Tokenizer, load_tokenizer
from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.baseline import BaselineMaskedLanguageEncoder, HuggingFaceEncoder, keyed_draws
from euro_lightning.encoder.baseline_files import load_baseline, rebuild
from euro_lightning.encoder.config import EncoderConfig, encoder_config
from euro_lightning.encoder.directory import CONFIG, download, is_hub_name, read_config
from euro_lightning.encoder.families import ARCHITECTURES, from_huggingface_config
from euro_lightning.encoder.model import LOCAL_BASE, MaskedLanguageEncoder
from euro_lightning.errors import ConfigError, DataError, UserError, raise_all
from euro_lightning.export import training_template
from euro_lightning.files import hash_value, read_json
from euro_lightning.objective.network import NetworkPlan
from euro_lightning.pretrained import read_pretrained
from euro_lightning.settings import read_yaml

RANDOM = "random:"
"""Begins the name of a random start."""

Logits = Callable[[Tensor, Segments, Tensor], Tensor]
"""int64 [T] ids, their segments, int64 [N] positions to float [N, V]."""


@dataclass(frozen=True)
class Judged:
    """An encoder, its tokenizer, and what must be known to judge it. Nothing here changes it."""

    origin: str
    """What the user called it."""
    label: str
    """What tables call it."""
    network: MaskedLanguageEncoder | HuggingFaceEncoder
    """In float32, in evaluation mode."""
    tokenizer: Tokenizer
    """What its rows stand for; its post-processor adds the special tokens of its training."""
    width: int
    """Size of a token's hidden state."""
    max_length: int
    """Longest segment, in tokens."""

    @property
    def logits(self) -> Logits | None:
        """Scores of the vocabulary at some positions; None for an encoder without the head for it."""
        network = self.network
        has_head = isinstance(network, MaskedLanguageEncoder | BaselineMaskedLanguageEncoder)
        return network.logits if has_head else None  # type: ignore[return-value]

    def body(self) -> nn.Module:
        """A copy of the encoder without a head, to fine-tune: (ids [T], segments, key) to [T, D]."""
        network = self.network
        if isinstance(network, MaskedLanguageEncoder):
            return copy.deepcopy(network.encoder)
        return HuggingFaceEncoder(copy.deepcopy(network.base))

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of weights, configuration and tokenizer: equal for encoders that give equal results."""
        network, content = self.network, hashlib.sha256()
        if isinstance(network, MaskedLanguageEncoder):
            facts: Any = [asdict(network.config), network.rotary_bases]
        else:
            facts = [type(network.model).__name__, network.model.config.to_dict()]
            facts[1].pop("_name_or_path", None)
        for name, tensor in sorted(network.state_dict().items()):
            content.update(f"{name} {tuple(tensor.shape)} ".encode())
            content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        return hash_value([facts, self.tokenizer.content_hash, content.hexdigest()])


def open_encoder(origin: str, seed: int = 0, *, attention: str = "sdpa", option: str = "--encoder") -> Judged:
    """An encoder by its name. No code and no pickle of it is run.

    Args:
        origin: a run folder or a checkpoint; a directory or Hub name of any encoder of transformers;
            or `random:` and one of these for fresh weights of its shape, with its tokenizer; or
            `random:PRESET@TOKENIZER`, where a mapping of fields may stand for the preset.
        seed: of what starts at random.
        attention: backend of our own encoders, see `encoder.attention.resolve_backend`.
        option: the option that it came from, for messages.

    Raises:
        UserError: nothing of the kind is there, it is damaged, or there is no tokenizer beside it.
    """
    name = origin.removeprefix(RANDOM)
    fresh = name != origin
    preset, at, path = name.rpartition("@")
    if fresh and at and not Path(name).exists():
        return _of_preset(origin, preset, Path(path), seed, attention, option)
    folder = download(name, option) if is_hub_name(name) else Path(name)
    is_directory = (folder / CONFIG).is_file() and not is_run(folder)
    network: MaskedLanguageEncoder | HuggingFaceEncoder
    if is_directory:
        network = _of_directory(name, folder, fresh, seed, attention, option)
    else:
        network, folder = _of_checkpoint(name, fresh, seed, attention, option)
    if not (folder / TOKENIZER).is_file():
        raise DataError(f"{option} {origin}: there is no {TOKENIZER} in {folder}, so it cannot read text")
    tokenizer = load_tokenizer(folder)
    if not is_directory:
        tokenizer.inner.post_processor = training_template(tokenizer)
    return _judged(origin, network, tokenizer, option)


def _judged(
    origin: str, network: MaskedLanguageEncoder | HuggingFaceEncoder, tokenizer: Tokenizer, option: str
) -> Judged:
    if isinstance(network, MaskedLanguageEncoder):
        width, longest, rows = network.config.width, network.config.max_length, network.config.vocabulary or 0
    else:
        config = network.base.config
        width, longest, rows = int(config.hidden_size), network.max_length, int(config.vocab_size)
    if rows < tokenizer.vocabulary:
        raise UserError(
            f"{option} {origin}: it has {rows:,} rows, and the tokenizer beside it {tokenizer.vocabulary:,} tokens"
        )
    return Judged(origin, label_of(origin), network.eval(), tokenizer, width, longest)


def label_of(origin: str) -> str:
    """A short name: that of a run, of a run and its checkpoint, or the last two parts of a path."""
    name = origin.removeprefix(RANDOM)
    prefix = origin[: len(origin) - len(name)]
    path = Path(name)
    if path.suffix == ".ckpt":
        return f"{prefix}{path.parent.parent.name}/{path.stem}"
    if is_run(path) or "@" in name:
        return prefix + (name.rpartition("@")[0] if "@" in name else path.name)
    return prefix + "/".join(part for part in path.parts[-2:] if part != path.anchor)


def _of_preset(origin: str, preset: str, path: Path, seed: int, attention: str, option: str) -> Judged:
    spec = read_yaml(preset, f"{option} {origin}")
    plan = NetworkPlan(asdict(encoder_config(spec, f"{option} {origin}")), None)
    tokenizer = load_tokenizer(path)
    raise_all(f"{option} {origin}: {problem}" for problem in plan.problems(tokenizer, {}))
    network = plan.build(tokenizer, {}, attention, seed)
    if tokenizer.inner.post_processor is None:
        tokenizer.inner.post_processor = training_template(tokenizer)
    return _judged(origin, network, tokenizer, option)


def _of_directory(
    name: str, folder: Path, fresh: bool, seed: int, attention: str, option: str
) -> MaskedLanguageEncoder | HuggingFaceEncoder:
    given = read_json(folder / CONFIG)
    given = given if isinstance(given, dict) else {}
    architectures = [str(each) for each in given.get("architectures") or ()]
    has_head = any(each.endswith(("ForMaskedLM", "ForPreTraining")) for each in architectures)
    if given.get("model_type") in ARCHITECTURES and (has_head or not architectures):
        if fresh:
            config, bases = from_huggingface_config(read_config(folder), f"{option} {name}/{CONFIG}")
            return _ours(config, bases, None, seed, attention)
        found = read_pretrained(str(folder), option)
        return _ours(found.config, found.rotary_bases, found.weights, seed, attention)
    model, _ = load_baseline(name, option, seed, head=has_head, fresh=fresh)
    return _baseline(model, has_head)


def _of_checkpoint(
    name: str, fresh: bool, seed: int, attention: str, option: str
) -> tuple[MaskedLanguageEncoder | HuggingFaceEncoder, Path]:
    if fresh and not Path(name).exists():
        raise UserError(
            f"{option} {RANDOM}{name}: no such run or directory; a preset needs a tokenizer:"
            f" {RANDOM}PRESET@TOKENIZER"
        )
    path = find_weights(name, option)
    content = load_checkpoint(path)
    facts, run = content["euro_lightning"], path.parent.parent
    if "baseline" in facts:
        model = rebuild(facts, network_weights(content), torch.float32)
        if fresh:
            with keyed_draws(seed, torch.device("cpu")):
                model = type(model)(model.config)
        return _baseline(model, True), run
    bases = (facts["rotary_base"], facts.get("local_rotary_base", LOCAL_BASE))
    config = encoder_config(facts["encoder"], f"{path}: encoder")
    weights = None if fresh else network_weights(content)
    return _ours(config, bases, weights, seed, attention), run


def _ours(
    config: EncoderConfig,
    bases: tuple[float, float],
    weights: dict[str, Tensor] | None,
    seed: int,
    attention: str,
) -> MaskedLanguageEncoder:
    network = MaskedLanguageEncoder(config, attention)
    network.set_rotary_base(*bases)
    if weights is None:
        network.initialise(seed)
    else:
        check_shapes(network, weights, "its weights")
        network.load_state_dict(weights)
    return network


def _baseline(model: Any, has_head: bool) -> HuggingFaceEncoder:
    if has_head:
        # one whose head is not known here is judged without it
        with contextlib.suppress(ConfigError):
            return BaselineMaskedLanguageEncoder(model)
    return HuggingFaceEncoder(model)
