"""From a checked configuration to model, data, callbacks and trainer, through LightningCLI."""

import contextlib
import dataclasses
import io
import logging
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import set_parsing_settings
from lightning.pytorch import Trainer
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from euro_lightning.callbacks.checkpoints import Checkpoints
from euro_lightning.callbacks.finite_loss import FiniteLoss
from euro_lightning.callbacks.progress import TokenProgress
from euro_lightning.callbacks.reports import Reports
from euro_lightning.callbacks.schedules import Annealing, MaskingRatio, RotaryBase
from euro_lightning.callbacks.throughput import Throughput
from euro_lightning.callbacks.token_clock import TokenClock
from euro_lightning.callbacks.weight_tiling import WeightTiling
from euro_lightning.data.cropping import Lengths
from euro_lightning.data.datamodule import TextDataModule
from euro_lightning.data.mixture import Share
from euro_lightning.data.phase import Phase
from euro_lightning.documentation import field_texts, sections
from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.errors import ConfigError
from euro_lightning.objective.mlm import MaskedLanguageModel
from euro_lightning.schedule import LearningRate, Ramp
from euro_lightning.schema import fields_of
from euro_lightning.settings import load, split_arguments
from euro_lightning.tracking import Tracking

CALLBACKS: dict[str, Any] = {
    "throughput": Throughput,
    "checkpoints": Checkpoints,
    "weight_tiling": WeightTiling,
    "tracking": Tracking,
    "progress": TokenProgress,
}

_ENDS = "the run ends with its last phase (data.phases.NAME.tokens)"

RESERVED = {
    "accumulate_grad_batches": "it follows from data.batch_tokens, data.micro_batch_tokens and the ranks",
    "max_epochs": _ENDS,
    "max_steps": _ENDS,
    "min_epochs": _ENDS,
    "min_steps": _ENDS,
    "val_check_interval": "set data.evaluation.every_tokens",
    "check_val_every_n_epoch": "set data.evaluation.every_tokens",
    "use_distributed_sampler": "the planner deals micro-batches to the ranks",
    "reload_dataloaders_every_n_epochs": "the data has no epochs",
    "enable_checkpointing": "set checkpoints.every_tokens and checkpoints.keep",
    "enable_progress_bar": "set progress.enabled",
    "enable_model_summary": "fit reports the parameters itself",
    "logger": "set tracking.uri",
    "default_root_dir": "set root",
    "num_sanity_val_steps": "validation needs no rehearsal",
    "log_every_n_steps": "set throughput.every_steps",
}
"""Trainer arguments that the project sets itself, and what to set instead."""

TRAINER_DEFAULTS: dict[str, Any] = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "use_distributed_sampler": False,
    "num_sanity_val_steps": 0,
    "max_epochs": -1,
}


@dataclass(frozen=True)
class Options:
    """What a run is called and what it starts from."""

    name: str | None = None
    """Name of the run; by default that of the first configuration file. A second run of a name
    is called NAME-2."""

    root: str = "runs"
    """Folder of all runs."""

    resume: str | None = None
    """fit: continue exactly: last, a run folder, or a checkpoint in one."""

    allow_changes: bool = False
    """fit: continue although the recipe differs from the checkpoint's."""

    init_from: str | None = None
    """fit: start with the weights of a run folder, a checkpoint, a Hugging Face directory or Hub name."""

    resize_vocabulary: bool = False
    """fit: with init_from or weight_tiling, allow another vocabulary: rows of tokens that both have are
    copied."""

    checkpoint: str = "last"
    """validate, test, predict: which weights: last, a run folder, or a checkpoint in one."""

    input: str | None = None
    """predict: a text file, one text a line."""

    output: str = "vectors.parquet"
    """predict: where sentence vectors go."""

    fill: bool = False
    """predict: show the likeliest words for each <mask> instead."""


SHARED = ("name", "root")
OWN = {
    "fit": ("resume", "allow_changes", "init_from", "resize_vocabulary"),
    "validate": ("checkpoint",),
    "test": ("checkpoint",),
    "predict": ("checkpoint", "input", "output", "fill"),
}
"""The options of each command besides the shared ones."""


class EuroCLI(LightningCLI):
    """LightningCLI with the project's callbacks; it parses and builds, the commands run."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        texts = field_texts(Options)
        for field in dataclasses.fields(Options):
            parser.add_argument(
                f"--{field.name}", type=field.type, default=field.default, help=texts[field.name]
            )
        for key, callback in CALLBACKS.items():
            parser.add_lightning_class_args(callback, key)


def schema_of(command: str) -> dict[str, Any]:
    """The keys that a command understands, with their types."""
    options = {name: kind for name, (kind, _) in fields_of(Options).items() if name in SHARED + OWN[command]}
    sections = {"model": MaskedLanguageModel, "data": TextDataModule, **CALLBACKS}
    return {**options, **sections, "trainer": dict.fromkeys(fields_of(Trainer), Any)}


def read_settings(command: str, arguments: list[str]) -> tuple[dict[str, Any], Options]:
    """The checked configuration of a command and its options.

    Raises:
        ConfigError: all that is wrong, in one line.
    """
    tree = load(arguments, schema_of(command))
    reserved = [key for key in tree.get("trainer") or {} if key in RESERVED]
    if reserved:
        raise ConfigError(" | ".join(f"trainer.{key} cannot be set: {RESERVED[key]}" for key in reserved))
    if not (tree.get("data") or {}).get("phases"):
        raise ConfigError(
            "data.phases is missing: give an experiment, for example -c experiments/anneal.yaml"
        )
    files, _ = split_arguments(arguments)
    tree["name"] = tree.get("name") or (Path(files[0]).stem if files else "run")
    options = Options(**{key: tree.pop(key) for key in fields_of(Options) if key in tree})
    return tree, options


def build(tree: Mapping[str, Any]) -> EuroCLI:
    """Instantiates model, data, callbacks and trainer.

    Raises:
        ConfigError: a value that the declared types do not catch, such as an unknown accelerator.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            cli = _parse(dict(tree))
    except (Exception, SystemExit) as error:
        if isinstance(error, ConfigError):
            raise
        reason = _first_line(str(error) if not isinstance(error, SystemExit) else said.getvalue())
        raise ConfigError(f"the configuration cannot be used: {reason}") from error
    sys.stderr.write(said.getvalue())
    steps = [TokenClock(), MaskingRatio(), Annealing(), RotaryBase(), FiniteLoss(), Reports()]
    cli.trainer.callbacks[:0] = steps  # type: ignore[attr-defined]
    return cli


def _parse(arguments: Any) -> EuroCLI:
    set_parsing_settings(docstring_parse_attribute_docstrings=True)
    return EuroCLI(
        MaskedLanguageModel,
        TextDataModule,
        run=False,
        args=arguments,
        save_config_callback=None,
        seed_everything_default=False,
        auto_configure_optimizers=False,
        trainer_defaults=TRAINER_DEFAULTS,
    )


def show_help() -> None:
    """Prints every key with its type, default and meaning."""
    with contextlib.suppress(SystemExit):
        _parse(["--help"])
    phase = "data.phases.NAME"
    parts = {
        phase: Phase,
        f"{phase}.lengths": Lengths,
        f"{phase}.learning_rate": LearningRate,
        f"{phase}.masking_ratio": Ramp,
        f"{phase}.mixture.SOURCE": Share,
        "model.encoder": EncoderConfig,
    }
    print("\n" + sections(parts))


def _first_line(text: str) -> str:
    lines = [line.strip(" -") for line in text.splitlines() if line.strip(" -")]
    return "; ".join(lines[:2])[:400] if lines else "unknown reason"


def resolved(cli: EuroCLI, options: Options) -> dict[str, Any]:
    """The whole configuration with every default, fit to be given to -c again."""
    config: dict[str, Any] = yaml.safe_load(cli.parser.dump(cli.config, skip_none=False))
    trainer = {k: v for k, v in config.pop("trainer").items() if k not in RESERVED and v is not None}
    kept = {k: v for k, v in config.items() if k not in fields_of(Options) and k != "seed_everything"}
    return {"name": options.name, "root": options.root, **kept, "trainer": trainer}


def quiet() -> None:
    """Keeps the libraries' chatter away and shows warnings as one line."""
    for name in ("lightning.pytorch", "lightning.fabric", "lightning.pytorch.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for text in (
        "does not have many workers",
        "sys.argv",
        "dataloader is not resumable",
        "infer the `batch_size`",
    ):
        warnings.filterwarnings("ignore", f"[^\\0]*{re.escape(text)}")
    for category in (DeprecationWarning, FutureWarning):
        warnings.filterwarnings("ignore", category=category)
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
