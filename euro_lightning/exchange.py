"""Commands that give weights: export a run, grow an encoder."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from euro_lightning.arguments import parse
from euro_lightning.card import model_card
from euro_lightning.checkpoint import load_checkpoint, network_weights, read_facts
from euro_lightning.data.store import TOKENIZER
from euro_lightning.data.tokenizer import load_tokenizer
from euro_lightning.encoder.baseline_files import rebuild
from euro_lightning.encoder.config import encoder_config
from euro_lightning.encoder.cost import parameter_count
from euro_lightning.encoder.tiling import LayerMap, Rescale, layer_map
from euro_lightning.errors import ConfigError
from euro_lightning.export import DTYPES, check_free, write_baseline, write_directory
from euro_lightning.pretrained import read_average, read_pretrained, run_checkpoints
from euro_lightning.settings import read_yaml

Dtype = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class ExportOptions:
    """Writes a directory that transformers loads: weights, configuration, tokenizer, model card."""

    run: str
    """A run folder, or a checkpoint in one."""

    out: str
    """The directory to write."""

    average: int = 1
    """How many checkpoints to average: the last ones, or those up to the given one."""

    dtype: Dtype = "float32"
    """Type of the weights."""

    force: bool = False
    """Write over a directory that was exported before."""


def export(words: list[str]) -> None:
    """Exports a run."""
    options = parse(ExportOptions, "export", words, ("run", "out"))
    if options is None:
        return
    out = Path(options.out)
    check_free(out, options.force)
    if options.average < 1:
        raise ConfigError(f"export: --average is {options.average}: it must be at least 1")
    used = run_checkpoints(options.run, options.average)
    last = used[-1]
    if "baseline" in read_facts(last):
        _export_baseline(last, out, options)
        return
    found = read_average(used)
    run = last.parent.parent
    notes = [f"The mean of {len(used)} checkpoints."] if len(used) > 1 else []
    card = model_card(run.name, found.config, found.tokens, notes, run)
    write_directory(out, found, options.dtype, card, options.force)
    print(f"weights     {', '.join(path.name for path in used)} as {options.dtype}")
    print(f"directory   {out}")
    print(f"try         python -c \"from transformers import pipeline; print(pipeline('fill-mask', '{out}')"
          f"('one {found.tokenizer.name_of(found.tokenizer.mask) if found.tokenizer else ''} three'))\"")  # fmt: skip


def _export_baseline(checkpoint: Path, out: Path, options: ExportOptions) -> None:
    if options.average != 1:
        raise ConfigError("export: --average is for our own encoders; this run is a baseline")
    run, content = checkpoint.parent.parent, load_checkpoint(checkpoint)
    facts = content["euro_lightning"]
    model = rebuild(facts, network_weights(content), DTYPES[options.dtype])
    note = f"It is transformers' {facts['architecture']}, trained here as a baseline on packed batches."
    tokenizer = load_tokenizer(run / TOKENIZER)
    write_baseline(
        out, model, tokenizer, model_card(run.name, None, facts["tokens"], [note], run), options.force
    )
    print(f"weights     {checkpoint.name} as {options.dtype}")
    print(f"directory   {out}")


@dataclass(frozen=True)
class GrowOptions:
    """Tiles a small encoder into a larger one of the same family, which --init_from then takes."""

    source: str
    """A run folder, a checkpoint, a Hugging Face directory or Hub name."""

    out: str
    """The directory to write, in the form of transformers."""

    to: str
    """The larger encoder: a preset, or fields such as '{preset: tiny, layers: 4}'; the vocabulary is the
    source's."""

    layers: LayerMap = "type_preserving"
    """Which layer of the source each layer takes: type_preserving keeps global and local ones apart,
    nearest is what ModernBERT did."""

    rescale: Rescale = "uneven"
    """What happens to the weights of inputs that now come in copies: uneven and even split them among
    the copies, so that activations keep their size; none leaves them, as ModernBERT did."""

    seed: int = 17
    """Of the uneven parts."""

    dtype: Dtype = "float32"
    """Type of the weights."""

    force: bool = False
    """Write over a directory that was exported before."""


def grow(words: list[str]) -> None:
    """Tiles an encoder into a larger one."""
    options = parse(GrowOptions, "grow", words, ("source", "out"))
    if options is None:
        return
    out = Path(options.out)
    check_free(out, options.force)
    spec = read_yaml(options.to, "grow: --to")
    if not isinstance(spec, str | dict):
        raise ConfigError(f"grow: --to is {options.to!r}: it must be a preset or a mapping of fields")
    target = encoder_config(spec, "grow: --to")
    found = read_pretrained(options.source, "grow")
    target = replace(target, vocabulary=found.config.vocabulary)
    grown = found.grown(target, options.layers, options.rescale, options.seed)
    sizes = [f"{parameter_count(config).total:,}" for config in (found.config, grown.config)]
    note = (
        f"Its weights are those of a smaller encoder ({found.config.layers} layers of width"
        f" {found.config.width}), tiled ({options.layers}, rescale {options.rescale}); it is meant as a start."
    )
    card = model_card(out.name, grown.config, None, [note])
    write_directory(out, grown, options.dtype, card, options.force)
    print(f"layers      {' '.join(map(str, layer_map(found.config, grown.config, options.layers)))}")
    print(f"parameters  {sizes[0]} → {sizes[1]}")
    print(f"directory   {out} (start from it with fit --init_from {out})")
