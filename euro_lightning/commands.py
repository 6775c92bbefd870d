"""fit, validate, test, predict and prepare."""

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer

from euro_lightning.callbacks.checkpoints import Checkpoints
from euro_lightning.callbacks.finite_loss import FiniteLoss
from euro_lightning.callbacks.reports import TRIAL, Reports
from euro_lightning.callbacks.summary import show_scores
from euro_lightning.callbacks.throughput import Throughput
from euro_lightning.callbacks.token_clock import callback_of
from euro_lightning.callbacks.weight_tiling import WeightTiling
from euro_lightning.checkpoint import read_facts
from euro_lightning.cli import EuroCLI, Options, build, quiet, read_settings, resolved, show_help
from euro_lightning.data.datamodule import TextDataModule
from euro_lightning.errors import ConfigError, Interrupted, UserError
from euro_lightning.objective.mlm import MaskedLanguageModel
from euro_lightning.objective.network import Start
from euro_lightning.objective.scores import Score
from euro_lightning.recipe import check_unchanged, recipe_of
from euro_lightning.results import Results, ratio_name
from euro_lightning.run import Run, find_run, open_run, rank_of_environment
from euro_lightning.tracking import Tracking, mlflow_command

_RUN_VARIABLE = "EURO_LIGHTNING_RUN"
"""Tells the processes that Lightning starts from the first rank which run folder it chose."""


def _start(command: str, arguments: list[str]) -> tuple[dict[str, Any], Options] | None:
    quiet()
    if any(word in ("-h", "--help") for word in arguments):
        show_help()
        return None
    return read_settings(command, arguments)


def _parts(cli: EuroCLI) -> tuple[Trainer, MaskedLanguageModel, TextDataModule]:
    return cli.trainer, cli.model, cli.datamodule


def fit(arguments: list[str]) -> None:
    """Trains; prints the table of scores and what to do next."""
    settings = _start("fit", arguments)
    if settings is None:
        return
    tree, options = settings
    assert options.name is not None
    run = find_run(Path(options.root), options.name, options.resume)
    cli = build(tree)
    cli.datamodule.check_inputs()
    config = resolved(cli, options)
    recipe = recipe_of(config)
    if run.checkpoint is not None and not options.allow_changes:
        check_unchanged(read_facts(run.checkpoint).get("recipe", {}), recipe)
    with contextlib.ExitStack() as stack:
        if rank_of_environment() == 0:
            code = open_run(run, config, stack)
            callback_of(cli.trainer, Tracking).open(run, config, code)
            os.environ[_RUN_VARIABLE] = str(run.path)
            stack.callback(os.environ.pop, _RUN_VARIABLE, None)
            _say_start(run, options)
        run = Run(Path(os.environ.get(_RUN_VARIABLE, run.path)), run.checkpoint)
        _train(cli, run, recipe, options)


def _train(cli: EuroCLI, run: Run, recipe: Mapping[str, Any], options: Options) -> None:
    trainer, model, data = _parts(cli)
    checkpoints, tracking = callback_of(trainer, Checkpoints), callback_of(trainer, Tracking)
    checkpoints.folder, checkpoints.facts = run.checkpoints, {"recipe": dict(recipe)}
    callback_of(trainer, FiniteLoss).folder = run.path
    reports = callback_of(trainer, Reports)
    reports.folder = run.path if (run.path / TRIAL).is_file() else None
    tiling = callback_of(trainer, WeightTiling)
    tiling.resumed, tiling.resize_vocabulary = run.checkpoint is not None, options.resize_vocabulary
    if options.init_from and not run.checkpoint:
        model.start = Start(options.init_from, "--init_from", options.resize_vocabulary)
    model.allow_changes = options.allow_changes
    try:
        trainer.fit(model, datamodule=data, ckpt_path=run.checkpoint, weights_only=True)
        if reports.outcome is not None:
            _leave(trainer, reports, tracking, data)
            return
        results = _final_scores(trainer, model, data)
        tracking.send(results.metrics(), data.clock)
    except (KeyboardInterrupt, SystemExit):
        tracking.finish("KILLED")
        raise Interrupted(
            f"interrupted after {data.clock:,} tokens; the same command with --resume {run.path} goes on"
        ) from None
    except BaseException:
        tracking.finish("FAILED")
        raise
    tracking.finish("FINISHED")
    if trainer.is_global_zero:
        show_scores(next(iter(results.scores.values())), "validation", data.clock, run.path)
        results.write(run.path)
        _say_end(run, options, tracking.uri)


def _leave(trainer: Trainer, reports: Reports, tracking: Tracking, data: TextDataModule) -> None:
    """Ends a trial that its sweep stopped: on all ranks, and without a failure."""
    tracking.tag({"outcome": str(reports.outcome), "reason": reports.reason})
    tracking.finish("KILLED")
    if trainer.is_global_zero:
        reports.close(data.clock)
        print(f"{reports.outcome} after {data.clock:,} tokens: {reports.reason}")


def _final_scores(trainer: Trainer, model: MaskedLanguageModel, data: TextDataModule) -> Results:
    """Scores at every masking ratio that is asked for; those at the first the training has measured at its
    end, unless it had nothing left to do."""
    found: dict[str, dict[str, Score]] = {}
    for ratio in data.evaluation.ratios:
        if found or not model.scores:
            model.evaluation_ratio = ratio
            trainer.validate(model, datamodule=data, verbose=False)
        found[ratio_name(ratio)] = model.scores
    model.evaluation_ratio = None
    return Results(
        data.clock,
        callback_of(trainer, Throughput).seconds,
        found,
        flops=model.run_flops,
        parameters=sum(parameter.numel() for parameter in model.network.parameters()),
    )


def _say_start(run: Run, options: Options) -> None:
    start = f"continues from {run.checkpoint.name}" if run.checkpoint else "starts at the first token"
    if options.init_from and not run.checkpoint:
        start = f"starts with the weights of {options.init_from}"
    print(f"run {run.path} {start}", file=sys.stderr, flush=True)


def _say_end(run: Run, options: Options, uri: str | None) -> None:
    more = f"python -m euro_lightning fit -c {run.path / 'config.yaml'} --resume {run.path} --allow_changes"
    print(f"run folder  {run.path}")
    print(f"curves      {mlflow_command(Path(options.root), uri)}")
    print(f"continue    {more} --data.phases.PHASE.tokens TOKENS")


def _weights(options: Options) -> tuple[Run, Path]:
    assert options.name is not None
    run = find_run(Path(options.root), options.name, options.checkpoint, "--checkpoint")
    if run.checkpoint is None:
        raise UserError(f"{run.path} has no checkpoint: train it with fit, or name one with --checkpoint")
    return run, run.checkpoint


def validate(arguments: list[str]) -> None:
    """Reports scores on the validation split."""
    _evaluate("validate", arguments)


def test(arguments: list[str]) -> None:
    """Reports scores on the test split."""
    _evaluate("test", arguments)


def _evaluate(command: str, arguments: list[str]) -> None:
    settings = _start(command, arguments)
    if settings is None:
        return
    tree, options = settings
    run, checkpoint = _weights(options)
    trainer, model, data = _parts(build(tree))
    action = trainer.validate if command == "validate" else trainer.test
    action(model, datamodule=data, ckpt_path=checkpoint, verbose=False, weights_only=True)
    if trainer.is_global_zero:
        show_scores(model.scores, "validation" if command == "validate" else "test", data.clock, run.path)


def predict(arguments: list[str]) -> None:
    """Writes sentence vectors, or shows the likeliest words for a mask."""
    from euro_lightning.predict import predict_file

    settings = _start("predict", arguments)
    if settings is None:
        return
    tree, options = settings
    if options.input is None or not Path(options.input).is_file():
        raise ConfigError(f"--input {options.input}: no such file; give a text file with one text a line")
    _, checkpoint = _weights(options)
    # vectors are written in the order of the lines, by one process
    tree["trainer"] = {**(tree.get("trainer") or {}), "devices": 1, "num_nodes": 1}
    output = None if options.fill else Path(options.output)
    predict_file(*_parts(build(tree)), checkpoint, Path(options.input), output)


def prepare(arguments: list[str]) -> None:
    """Makes the token store of an experiment or of a corpus in YAML, or checks it with --verify."""
    from euro_lightning.corpora.building import describes_corpus, prepare_corpus
    from euro_lightning.data.prepare import prepare as make

    if describes_corpus(arguments):
        quiet()
        prepare_corpus(arguments)
        return
    verify = "--verify" in arguments
    settings = _start("fit", [word for word in arguments if word != "--verify"])
    if settings is None:
        return
    _, _, data = _parts(build(settings[0]))
    data.prepare_data()
    store = make(data.config)
    for name, facts in store.sources.items():
        counts = "  ".join(
            f"{split} {n['documents']:,} ({n['tokens']:,} tokens)" for split, n in facts["splits"].items()
        )
        print(f"{name:>10}  {counts}")
    print(f"token store {store.path}")
    if verify:
        print(f"{store.verify()} files verified")
