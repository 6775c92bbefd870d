"""report: what a study says, as Markdown, HTML and PNG."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from euro_lightning.arguments import parse
from euro_lightning.errors import ConfigError, UserError
from euro_lightning.files import read_json, write_text


@dataclass(frozen=True)
class Options:
    """Says what a study found, from Optuna's storage and MLflow alone: means with intervals over seeds, paired
    differences to the control with corrected tests, curves, effects by source, costs, and for the question a
    yes, a no, or cannot tell. A study that still runs is reported as far as it is."""

    study: str
    """Name of a study (without its hash where that is enough), or its folder."""

    root: str = "runs"
    """Folder of studies."""

    storage: str | None = None
    """Optuna's storage; by default that of the study's folder. Needed where it takes a password."""

    uri: str | None = None
    """MLflow's server or database, where curves are; by default that of the study's folder or root."""

    output: str | None = None
    """Name of the files that are written, without ending; by default report in the study's folder."""

    margin: float = 0.01
    """The smallest gain that matters, as a share of the control's mean: smaller ones count as none."""


def report(words: Sequence[str]) -> None:
    """Writes the report and prints the answer."""
    options = parse(Options, "report", list(words), ("study",))
    if options is None:
        return
    if not 0 <= options.margin < 1:
        raise ConfigError(f"report: --margin is {options.margin}: it is a share of the mean, 0 to 1")
    folder = _folder(Path(options.root), options.study, options.storage is None)
    facts: dict[str, Any] = read_json(folder / "study.json") if folder else {}
    from euro_lightning.ablation.evidence import gather, read_study, with_curves
    from euro_lightning.ablation.rendering import as_html, as_markdown
    from euro_lightning.ablation.report import Rules, findings_of
    from euro_lightning.ablation.report import report as blocks_of
    from euro_lightning.ablation.verdict import verdict

    name = str(facts.get("study") or facts.get("name") or options.study)
    storage = options.storage or _storage(folder, facts)
    evidence = gather(read_study(storage, name))
    evidence = with_curves(evidence, _tracking(options, folder))
    output = Path(options.output) if options.output else (folder or Path(f"{evidence.name}")) / "report"
    output.parent.mkdir(parents=True, exist_ok=True)
    rules = Rules(margin=options.margin)
    blocks = blocks_of(evidence, output, rules)
    for ending, text in (("md", as_markdown(blocks)), ("html", as_html(blocks))):
        write_text(output.with_name(f"{output.name}.{ending}"), text)
    print(evidence.question)
    print(verdict(evidence, findings_of(evidence, evidence.objectives[0], rules)))
    print(f"report {output}.md, {output}.html and its figures")


def _folder(root: Path, study: str, needed: bool) -> Path | None:
    """The study's folder: as given, or under the root by its name or the beginning of it."""
    for path in (Path(study), root / study):
        if (path / "study.json").is_file():
            return path
    found = sorted(path.parent for path in root.glob(f"{study}-*/study.json"))
    if len(found) == 1:
        return found[0]
    if not needed:
        return None
    there = ", ".join(path.parent.name for path in sorted(root.glob("*/study.json"))[:8]) or "none"
    which = "several studies begin so" if found else "no such study"
    raise UserError(
        f"{study}: {which} in {root} (studies there: {there}); give its folder, --root or --storage"
    )


def _storage(folder: Path | None, facts: dict[str, Any]) -> str:
    given = facts.get("storage")
    if given:
        return str(given)
    assert folder is not None
    return f"sqlite:///{(folder / 'study.db').resolve()}"


def _tracking(options: Options, folder: Path | None) -> str | None:
    """Where curves are: as given, from the environment, or a database in the study's folder or beside it."""
    given = options.uri or os.environ.get("MLFLOW_TRACKING_URI")
    if given or folder is None:
        return given
    for path in (folder / "mlflow.db", folder.parent / "mlflow.db"):
        if path.is_file():
            return f"sqlite:///{path.resolve()}"
    return None
