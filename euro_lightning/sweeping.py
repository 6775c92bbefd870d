"""sweep: an ablation to its end, whatever happens on the way."""

import contextlib
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from euro_lightning.arguments import parse
from euro_lightning.errors import ConfigError, Interrupted, UserError, raise_all

if TYPE_CHECKING:
    from euro_lightning.ablation.config import Sweep
    from euro_lightning.ablation.storage import Storage
    from euro_lightning.ablation.study import Study
    from euro_lightning.ablation.trials import Counts


@dataclass(frozen=True)
class Options:
    """Runs an ablation: every setting with every seed, each a fit in a process of its own, kept in Optuna and in
    MLflow. The same command goes on after an interruption, a crash or a failure; an edited file is another study.
    `report STUDY` then says what was found."""

    config: str
    """The sweep file; -c for short. sweeps/ has those of the papers' questions."""

    scale: str | None = None
    """One of the file's scales, for example paper."""

    workers: int = 1
    """Trials at once on this machine; cores and GPUs are shared among them."""

    root: str = "runs"
    """Folder of studies; trials lie in ROOT/STUDY."""

    storage: str | None = None
    """Optuna's storage in place of the file's: sqlite:///FILE or postgresql://USER@HOST/DATABASE. Drivers on several
    machines share a study through PostgreSQL and a root folder that all of them see."""

    dry_run: bool = False
    """Checks the file, shows the points and the command of the first, and runs nothing."""


def sweep(words: Sequence[str]) -> None:
    """Runs a sweep file."""
    options = parse(Options, "sweep", list(words), ())
    if options is None:
        return
    if options.workers < 1:
        raise ConfigError(f"sweep: --workers is {options.workers}: it must be at least 1")
    from euro_lightning.cli import quiet

    quiet()
    plan = read(options)
    root = Path(options.root)
    folder = root / plan.study_name
    from euro_lightning.ablation.storage import find_storage

    storage = find_storage(options.storage or plan.storage, folder)
    if options.dry_run:
        show_points(plan, folder)
        return
    with only_driver(plan, storage), interruptible():
        drive(plan, root, folder, storage, options.workers)


def read(options: Options) -> "Sweep":
    """The sweep file, with all that is wrong with it, its points and its tasks in one error.

    Raises:
        ConfigError: something is.
    """
    from euro_lightning.ablation.reading import read_sweep
    from euro_lightning.ablation.samplers import problems_of_search
    from euro_lightning.ablation.space import problems_of_points

    plan = read_sweep(options.config, options.scale)
    problems = [*problems_of_search(plan), *problems_of_points(plan)]
    if plan.evaluation is not None:
        from euro_lightning.ablation.downstream import problems_of_tasks

        problems += problems_of_tasks(plan.evaluation)
    raise_all(f"{options.config}: {problem}" for problem in problems)
    return plan


@contextlib.contextmanager
def only_driver(plan: "Sweep", storage: "Storage") -> Iterator[None]:
    """SQLite takes one driver: it would hand out the same trial twice.

    Raises:
        UserError: there is one already.
    """
    if not storage.is_file:
        yield
        return
    with storage.lock(f"driver-{plan.study_name}", wait=False) as obtained:
        if not obtained:
            raise UserError(
                f"another sweep command works on {plan.study_name}, and {storage.shown} takes one only: give that one"
                " more --workers, or share the study through --storage postgresql://USER@HOST/DATABASE"
            )
        yield


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP end a sweep as Ctrl-C does: its trials go back to the queue."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _: Any) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted("interrupted; the same command goes on") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def drive(plan: "Sweep", root: Path, folder: Path, storage: "Storage", workers: int) -> None:
    """Runs the study in this process's workers.

    Raises:
        UserError: points failed for good, or nothing could be run.
    """
    from euro_lightning.ablation.driver import Driver, environment_of
    from euro_lightning.ablation.starts import make_start
    from euro_lightning.ablation.storage import dashboard_command
    from euro_lightning.ablation.study import Study, unit_of
    from euro_lightning.ablation.tracking import StudyTracking
    from euro_lightning.ablation.view import View
    from euro_lightning.files import write_json

    study = Study(plan, storage, unit_of(plan))
    own = None if storage.path == (folder / "study.db").resolve() else storage.shown
    write_json(folder / "study.json", {"study": study.name, "question": plan.question, "storage": own})
    with View(study.name, workers) as view:
        view.say(f"study {study.name} in {folder}")
        tracking = StudyTracking(plan, root, view.say)
        parent = tracking.open(plan.question)
        if parent is not None:
            study.study.set_user_attr("mlflow_run_id", parent)
        view.say(f"watch it: {dashboard_command(storage)}")
        if tracking.command is not None:
            view.say(f"curves: {tracking.command}")
        ended = "KILLED"
        try:
            start = make_start(
                plan, root, tracking.options, environment_of(0, 1), study.beat_now_and_then, view.say
            )
            counts = Driver(study, folder, workers, start, tracking, view).run()
            ended = "FINISHED" if not counts.waiting + counts.running + counts.failed else "FAILED"
        except UserError:
            ended = "FAILED"
            raise
        finally:
            with contextlib.suppress(UserError):
                tracking.close(ended, study.best())
        view.say(view.line(counts))
    conclude(study, counts)


def conclude(study: "Study", counts: "Counts") -> None:
    """Says what is next.

    Raises:
        UserError: points failed for good.
    """
    if counts.failed:
        raise UserError(
            f"{counts.failed} of {counts.total} points failed: {study.failure()}; mend it and run the same command"
        )
    if counts.waiting:
        print(f"the budget is spent with {counts.waiting} points to go; the same command with more goes on")
    print(f"what was found: python -m euro_lightning report {study.name}")


def show_points(plan: "Sweep", folder: Path) -> None:
    """The points as a table, and how the first is run."""
    from rich.console import Console
    from rich.table import Table

    from euro_lightning.ablation.config import InitFrom
    from euro_lightning.ablation.space import grid, params_of
    from euro_lightning.ablation.starts import start_folder
    from euro_lightning.ablation.trial import Job

    print(plan.question)
    if plan.sampler == "grid":
        points = [params_of(point) for point in grid(plan)]
        table = Table("trial", *points[0], box=None)
        for number, point in enumerate(points):
            table.add_row(str(number), *map(str, point.values()))
        Console(width=None if sys.stdout.isatty() else 120).print(table)
    else:
        print(
            f"{plan.sampler} chooses settings of {', '.join(plan.name_of.values())}; {plan.budget.trials} trials"
        )
    if isinstance(plan.init_from, InitFrom):
        print(f"all trials start from {start_folder(plan, folder.parent)}, trained first")
    job = Job(folder / "trial-000", plan.base, (), plan.launcher)
    print(f"study {plan.study_name}; a trial is run as: {shlex.join(job.command(0))}")
