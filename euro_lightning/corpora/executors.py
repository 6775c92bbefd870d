"""Who does the tasks: processes of this machine, a Ray cluster, or SLURM jobs (datatrove's executors)."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TextIO

from datatrove.executor.local import LocalPipelineExecutor
from datatrove.executor.ray import RayPipelineExecutor
from datatrove.executor.slurm import SlurmPipelineExecutor
from loguru import logger

from euro_lightning.corpora.config import Slurm
from euro_lightning.corpora.stages import STAGES, Step, failure_file
from euro_lightning.corpora.work import Work
from euro_lightning.errors import ConfigError, DataError

_NOWHERE: TextIO = open(os.devnull, "w")


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keeps datatrove's log off the terminal; it stays in the log files of the working folder."""
    before, sys.stderr = sys.stderr, _NOWHERE
    logger.remove()
    try:
        yield
    finally:
        logger.remove()
        sys.stderr = before


class Local(LocalPipelineExecutor):  # type: ignore[misc]
    """Processes of this machine.

    datatrove's own pool waits for ever for the task of a process that was killed (for memory, say),
    and its processes outlive a killed parent: hence this one.
    """

    def run(self) -> None:
        """Runs what is not yet done."""
        ranks = self.get_incomplete_ranks()
        if self.workers == 1 or len(ranks) < 2:
            for rank in ranks:
                self._run_for_rank(rank)
            return
        context = multiprocessing.get_context("forkserver")
        pool = ProcessPoolExecutor(self.workers, context, initializer=_end_with_parent)
        try:
            for task in as_completed([pool.submit(self._run_for_rank, rank) for rank in ranks]):
                task.result()
        except BrokenProcessPool:
            raise DataError(
                "a process was killed from outside, perhaps for want of memory: give fewer --workers;"
                " what is done is kept"
            ) from None
        except KeyboardInterrupt:
            # a task may take minutes yet, and whatever it has done so far is done again
            for process in list(pool._processes.values()):
                process.kill()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _run_for_rank(self, rank: int, local_rank: int = 0, node_rank: int = -1) -> None:
        with quietly():
            super()._run_for_rank(rank, local_rank, node_rank)


def _end_with_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Ray(RayPipelineExecutor):  # type: ignore[misc]
    """Tasks of a Ray cluster: the one that RAY_ADDRESS names, or a small one on this machine."""

    def run(self) -> None:
        """Runs what is not yet done."""
        import ray

        if not ray.is_initialized():
            address = os.environ.get("RAY_ADDRESS")
            own: dict[str, Any] = {} if address else {"num_cpus": self.workers, "include_dashboard": False}
            ray.init(address=address, log_to_driver=False, logging_level="ERROR", **own)
        with quietly():
            super().run()


def run_stage(work: Work, stage: str, kind: str, workers: int) -> None:
    """Runs all tasks of a stage and waits for them.

    Raises:
        UserError: a task cannot be done.
    """
    tasks = STAGES[stage].tasks(work)
    for rank in range(tasks):
        failure_file(work.path, stage, rank).unlink(missing_ok=True)
    cls: Any = Local if kind == "local" else Ray
    with quietly():
        executor = cls(
            pipeline=[Step(str(work.path), stage)],
            tasks=tasks,
            workers=min(workers, tasks),
            logging_dir=str(work.path / "logs" / stage),
        )
    executor.run()
    left = executor.get_incomplete_ranks()
    for rank in left:
        file = failure_file(work.path, stage, rank)
        if file.is_file():
            raise DataError(file.read_text())
    if left:
        log = work.path / "logs" / stage / "logs" / f"task_{left[0]:05d}.log"
        raise DataError(f"{len(left)} tasks of the stage {stage} failed; the log of the first is {log}")


def unfinished(jobs: list[str]) -> list[str]:
    """Those of some SLURM jobs that wait or run."""
    command = ["squeue", "--noheader", "--format=%A", f"--jobs={','.join(jobs)}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    # squeue fails when it has forgotten all of them
    return sorted(set(done.stdout.split())) if done.returncode == 0 else []


def submit(work: Work, slurm: Slurm, workers: int) -> list[tuple[str, str]]:
    """Submits one job array for each stage, each after the one before.

    Returns:
        Stage and number of each job that there is still need for.

    Raises:
        ConfigError: there is no sbatch, or it refuses.
    """
    folder = Path(sys.executable).parent
    jobs: list[tuple[str, str]] = []
    before: Any = None
    try:
        with quietly():
            for stage, what in STAGES.items():
                if not what.needed(work.recipe):
                    continue
                before = SlurmPipelineExecutor(
                    pipeline=[Step(str(work.path), stage)],
                    tasks=what.tasks(work),
                    time=slurm.time,
                    partition=slurm.partition,
                    cpus_per_task=slurm.cpus_per_task,
                    mem_per_cpu_gb=slurm.memory_gb_per_cpu,
                    workers=workers or -1,
                    job_name=f"prepare-{stage}",
                    qos=slurm.qos,
                    env_command=slurm.environment
                    or f'export PATH="{folder}:$PATH" PYTHONPATH="$PWD:$PYTHONPATH"',
                    sbatch_args={"kill-on-invalid-dep": "yes", **slurm.arguments},
                    logging_dir=str(work.path / "logs" / stage),
                    depends=before,
                )
                before.launch_job()
                if before.job_id != -1:
                    jobs.append((stage, str(before.job_id)))
    except FileNotFoundError:
        raise ConfigError("--executor slurm needs sbatch on the path; start it on a login node") from None
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"sbatch refused a job (exit code {error.returncode}): {error.output!r}") from None
    return jobs
