"""Small sweeps for tests, and how they are run."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import yaml

from euro_lightning.settings import merge
from tests.conftest import REPOSITORY, command_line

STAND_IN = Path(__file__).with_name("stand_in.py")
OBJECTIVE = "validation/loss@0.15"


def write_sweep(
    folder: Path,
    recipe: dict[str, Any],
    changes: dict[str, Any] | None = None,
    *,
    name: str = "ratio",
    **behaviour: Any,
) -> Path:
    """A sweep file of 2 masking ratios and 2 seeds, whose trials are stand-ins that behave as told."""
    base = folder / f"{name}-base.yaml"
    base.write_text(yaml.safe_dump(recipe, sort_keys=False))
    told = {"steps": 3, "step_seconds": 0.05, **behaviour}
    base.with_suffix(".json").write_text(json.dumps(told))
    tree = {
        "question": "Does a lower masking ratio help?",
        "base": [str(base)],
        "space": {"data.phases.anneal.masking_ratio": [0.5, 0.1]},
        "seeds": [1, 2],
        "objectives": [{"metric": OBJECTIVE, "direction": "minimize"}],
        "launcher": f"{{python}} {STAND_IN} {{folder}} {{arguments}}",
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(merge(tree, changes or {}), sort_keys=False))
    return path


def start_sweep(path: Path, *options: str | Path) -> subprocess.Popen[str]:
    """A sweep command in a process of its own."""
    return subprocess.Popen(
        command_line("sweep", "-c", path, *options),
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def trials_of(root: Path, storage: str | None = None) -> list[optuna.trial.FrozenTrial]:
    """The trials of the only study."""
    uri = storage or f"sqlite:///{next(root.glob('*/study.db')).resolve()}"
    [name] = optuna.get_all_study_names(uri)
    return optuna.load_study(study_name=name, storage=uri).get_trials(deepcopy=False)


def states_of(root: Path, storage: str | None = None) -> list[str]:
    """How the trials ended, in their order."""
    return [trial.state.name for trial in trials_of(root, storage)]


POSTGRESQL = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


def as_user() -> list[str]:
    """PostgreSQL refuses to run as root."""
    return ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []


@contextlib.contextmanager
def postgresql() -> Iterator[str]:
    """A server of its own, on a socket (whose path must be short); yields the URI of an empty database."""
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    bin_folder, data = POSTGRESQL[-1], folder / "data"
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    quiet = {"stdout": subprocess.DEVNULL, "cwd": "/"}
    init = [bin_folder / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"]
    subprocess.run([*as_user(), *map(str, init)], check=True, **quiet)
    options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
    control = [*as_user(), str(bin_folder / "pg_ctl"), "-D", str(data), "-w"]
    subprocess.run([*control, "-l", str(folder / "log"), "-o", options, "start"], check=True, **quiet)
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=True, **quiet)
        shutil.rmtree(folder)
