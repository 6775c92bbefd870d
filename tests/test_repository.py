"""Rules that hold for the whole repository."""

import ast
import importlib.metadata
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from euro_lightning.__main__ import COMMANDS
from euro_lightning.cli import build, read_settings, resolved
from euro_lightning.data.phase import batch_problems
from euro_lightning.encoder.cost import parameter_count
from euro_lightning.encoder.model import MaskedLanguageEncoder
from tests.conftest import REPOSITORY

PACKAGE = REPOSITORY / "euro_lightning"

# Data flows one way: a file imports only from what stands before it.
ORDER = [
    "errors",
    "files",
    "keys",
    "allocator",
    "schedule",
    "schema",
    "settings",
    "documentation",
    "arguments",
    "data.documents",
    "data.catalogues",
    "data.library",
    "data.embedded",
    "data.lines",
    "data.rows",
    "data.corpus",
    "data.bpe",
    "data.unigram",
    "data.tokenizer",
    "data.sampling",
    "data.tokenizer_report",
    "data.writer",
    "data.store",
    "data.manifest",
    "data.prepare",
    "corpora.words",
    "corpora.paragraphs",
    "corpora.filters",
    "corpora.duplicates",
    "corpora.quality",
    "corpora.reference",
    "corpora.config",
    "corpora.shard",
    "corpora.hub",
    "corpora.shards",
    "corpora.reading",
    "corpora.work",
    "corpora.progress",
    "corpora.gathering",
    "corpora.scoring",
    "corpora.tokenising",
    "corpora.assembly",
    "corpora.stages",
    "corpora.executors",
    "corpora.watching",
    "corpora.report",
    "corpora.building",
    "data.mixture",
    "data.composition",
    "data.cropping",
    "data.phase",
    "data.packing",
    "data.planner",
    "data.texts",
    "data.datamodule",
    "objective.masking",
    "encoder.config",
    "encoder.cost",
    "encoder.segment_attention",
    "encoder.attention",
    "encoder.layers",
    "encoder.model",
    "encoder.tiling",
    "encoder.families",
    "encoder.huggingface",
    "encoder.directory",
    "encoder.baseline",
    "encoder.baseline_files",
    "checkpoint",
    "pretrained",
    "export",
    "card",
    "inspection",
    "exchange",
    "objective.network",
    "objective.compiling",
    "objective.optimizers",
    "objective.scores",
    "objective.mlm",
    "results",
    "callbacks.token_clock",
    "callbacks.schedules",
    "callbacks.throughput",
    "callbacks.finite_loss",
    "callbacks.progress",
    "callbacks.reports",
    "callbacks.summary",
    "callbacks.checkpoints",
    "callbacks.weight_tiling",
    "recipe",
    "run",
    "tracking",
    "predict",
    "cli",
    "commands",
    "mixing",
    "evaluation.examples",
    "evaluation.entities",
    "evaluation.metrics",
    "evaluation.ranking",
    "evaluation.table",
    "evaluation.task",
    "evaluation.places",
    "evaluation.records",
    "evaluation.searching",
    "evaluation.reading",
    "evaluation.encoders",
    "evaluation.encoding",
    "evaluation.protocol",
    "evaluation.batches",
    "evaluation.heads",
    "evaluation.learner",
    "evaluation.sequences",
    "evaluation.tagging",
    "evaluation.retrieval",
    "evaluation.finetuning",
    "evaluation.scoring",
    "evaluation.untuned",
    "evaluation.study",
    "evaluation.judging",
    "evaluation.comparing",
    "evaluation.report",
    "evaluation.tracking",
    "evaluating",
    "ablation.wording",
    "ablation.texts",
    "ablation.mixtures",
    "ablation.shapes",
    "ablation.registry",
    "ablation.operations",
    "ablation.config",
    "ablation.reading",
    "ablation.space",
    "ablation.samplers",
    "ablation.guard",
    "ablation.storage",
    "ablation.owner",
    "ablation.trials",
    "ablation.study",
    "ablation.trial",
    "ablation.outcome",
    "ablation.downstream",
    "ablation.tracking",
    "ablation.starts",
    "ablation.slots",
    "ablation.view",
    "ablation.driver",
    "sweeping",
    "ablation.statistics",
    "ablation.evidence",
    "ablation.cost",
    "ablation.rendering",
    "ablation.figures",
    "ablation.verdict",
    "ablation.report",
    "reporting",
    "comparing",
    "benchmark.machine",
    "benchmark.workload",
    "benchmark.contestants",
    "benchmark.loops",
    "benchmark.measuring",
    "benchmark.growth",
    "benchmarking",
    "selection",
    "tokenizer_tables",
    "tokenizing",
    "__main__",
]


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("euro_lightning."):
            found.add(node.module.removeprefix("euro_lightning."))
    return found


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


FILES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_a_file_imports_only_from_what_stands_before_it(path: Path) -> None:
    name = module_name(path)
    assert name in ORDER, "give the new file its place in ORDER"
    later = {other for other in imports_of(path) if ORDER.index(other) >= ORDER.index(name)}
    assert not later


def test_the_encoder_is_plain_torch() -> None:
    for path in (PACKAGE / "encoder").glob("*.py"):
        assert "lightning.pytorch" not in path.read_text(), path


def experiment_name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY / "experiments").with_suffix(""))


WRITTEN = sorted((REPOSITORY / "experiments").rglob("*.yaml"))
EXPERIMENTS = [path for path in WRITTEN if path.parent.name not in ("corpora", "tasks")]
EXPERIMENTS = [path for path in WRITTEN if not {"corpora", "evaluation"} & set(path.parts)]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=experiment_name)
def test_every_shipped_experiment_can_be_built_and_its_resolved_form_is_read_again(
    path: Path, tmp_path: Path
) -> None:
    tree, options = read_settings("fit", ["-c", str(path)])
    cli = build(tree)
    problems = [
        line
        for name, phase in cli.datamodule.timeline.phases.items()
        for line in phase.problems(phase.mixture, f"data.phases.{name}")
    ]
    assert problems == []
    assert (
        batch_problems(cli.datamodule.timeline, cli.datamodule.micro_batch_tokens, cli.trainer.world_size)
        == []
    )
    plan, tokenizer = (
        cli.model.network_plan,
        SimpleNamespace(vocabulary=cli.model.network_plan.config.vocabulary),
    )
    longest = {name: phase.lengths.maximum for name, phase in cli.datamodule.timeline.phases.items()}
    assert plan.problems(tokenizer, longest) == [] if tokenizer.vocabulary else True
    with torch.device("meta"):
        network = MaskedLanguageEncoder(replace(plan.config, vocabulary=plan.config.vocabulary or 4096))
    assert sum(p.numel() for p in network.parameters()) == parameter_count(network.config).total
    whole = tmp_path / "resolved.yaml"
    whole.write_text(yaml.safe_dump(resolved(cli, options)))
    again, _ = read_settings("fit", ["-c", str(whole)])
    assert resolved(build(again), options) == resolved(cli, options)


@pytest.mark.parametrize("path", WRITTEN, ids=experiment_name)
def test_every_line_of_an_experiment_is_commented(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        assert not line.strip() or "#" in line, f"{path.name}, line {number}"


def test_the_readme_names_every_command_and_its_commands_exist() -> None:
    text = (REPOSITORY / "README.md").read_text()
    used = set(re.findall(r"python -m euro_lightning (\w+)", text))
    assert used <= set(COMMANDS)
    assert set(COMMANDS) <= used
    for target in re.findall(r"^make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    for path in re.findall(r"experiments/[\w/]+\.yaml", text):
        assert (REPOSITORY / path).is_file()


def test_lightning_is_not_a_malicious_release() -> None:
    """2.6.2 and 2.6.3 stole credentials at import (GHSA-w37p-236h-pfx3)."""
    import lightning

    assert importlib.metadata.version("lightning") not in {"2.6.2", "2.6.3"}
    assert not (Path(lightning.__file__).parent / "_runtime").exists()


def test_constraints_pin_every_dependency() -> None:
    pinned = {
        re.split(r"[=\[]", line)[0].lower().replace("-", "_").replace(".", "_")
        for line in (REPOSITORY / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    }
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"]]
    makefile = (REPOSITORY / "Makefile").read_text()
    chosen = re.search(r"-e '\.\[([\w,]+)\]'", makefile)
    assert chosen
    needed += [name for extra in chosen[1].split(",") for name in extras[extra]]
    names = {re.split(r"[<>=!\[;]", n)[0].strip().lower().replace("-", "_").replace(".", "_") for n in needed}
    assert names <= pinned
