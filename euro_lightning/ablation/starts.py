"""The weights that all trials of a sweep start with: a fit that is made once, whoever needs it first."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from euro_lightning.ablation.config import InitFrom, Sweep, merged
from euro_lightning.ablation.outcome import failure, fitted
from euro_lightning.ablation.trial import LOG, Job, Process, is_free
from euro_lightning.errors import UserError
from euro_lightning.files import hash_value, locked

_POLL = 0.2


def start_folder(sweep: Sweep, root: Path) -> Path | None:
    """The run whose weights trials start with, when the sweep makes it; sweeps with the same one share it."""
    if not isinstance(sweep.init_from, InitFrom):
        return None
    tree = merged(sweep.init_from.base, sweep.init_from.overrides)
    return root / f"start-{hash_value(tree)[:8]}"


def make_start(
    sweep: Sweep,
    root: Path,
    tracking: Sequence[str],
    environment: dict[str, str],
    beat: Callable[[], object],
    say: Callable[[str], None],
) -> str | None:
    """What trials give to --init_from; the fit is run, or waited for, when it has to be made first.

    Args:
        sweep: the sweep.
        root: folder of runs.
        tracking: options of fit that say where curves go.
        environment: variables of the fit.
        beat: called while it runs.
        say: told what is going on.

    Raises:
        UserError: the fit failed.
    """
    folder = start_folder(sweep, root)
    if folder is None or not isinstance(sweep.init_from, InitFrom):
        return sweep.init_from if isinstance(sweep.init_from, str) else None
    told = False
    while not fitted(folder):
        with locked(root / f".{folder.name}.lock", wait=False) as obtained:
            if obtained and is_free(folder) and not fitted(folder):
                say(f"trains what all trials start with; log {folder / LOG}")
                job = Job(folder, sweep.init_from.base, tracking, sweep.launcher)
                job.write(sweep.init_from.overrides, None)
                process = Process(job.command(0), folder / LOG, environment)
                try:
                    while (code := process.poll()) is None:
                        beat()
                        time.sleep(_POLL)
                finally:
                    process.stop()
                    process.wait()
                if not fitted(folder):
                    raise UserError(
                        f"what trials start with cannot be trained: {failure(folder, code).reason}"
                        f" (log {folder / LOG}); mend it and run the same command"
                    )
                break
        if not told:
            say(f"waits for {folder}, which another sweep trains")
            told = True
        beat()
        time.sleep(_POLL)
    return str(folder)
