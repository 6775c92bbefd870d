"""Small studies made directly in Optuna, with the attributes that `sweep` gives them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna

from euro_lightning.files import write_json

optuna.logging.set_verbosity(optuna.logging.ERROR)

SOURCES = ("en", "fr", "code")
METRIC = "validation/loss@mean"


def metrics_of(value: float) -> dict[str, float]:
    """Scores around a loss: by ratio and by source."""
    found = {}
    for ratio, shift in (("mean", 0.0), ("0.1", -0.2), ("0.5", 0.2)):
        name = f"validation/loss@{ratio}"
        found[name] = value + shift
        found |= {f"{name}/{source}": value + shift + i - 1 for i, source in enumerate(SOURCES)}
    return found


def make_study(
    folder: Path,
    loss: Callable[[float, int], float | None],
    *,
    values: Sequence[float] = (0.5, 0.3, 0.1),
    seeds: Sequence[int] = (1, 2, 3),
    name: str = "masking_ratio-0123abcd",
    objectives: Sequence[str] = (METRIC,),
    curves: bool = True,
) -> optuna.Study:
    """A grid over the masking ratio in a folder of its own.

    Args:
        folder: folder of studies.
        loss: of a setting and a seed; None leaves the point out.
        values: of the masking ratio; the first is the control.
        seeds: seeds.
        name: of the study.
        objectives: metrics, all made small.
        curves: whether validations during training were reported.
    """
    study = empty_study(folder, name, objectives, {"masking_ratio": list(values)}, seeds)
    distributions = {
        "masking_ratio": optuna.distributions.CategoricalDistribution(tuple(values)),
        "seed": optuna.distributions.CategoricalDistribution(tuple(seeds)),
    }
    for seed in seeds:
        for value in values:
            found = loss(value, seed)
            if found is None:
                continue
            metrics = metrics_of(found)
            facts = {
                **facts_of({"masking_ratio": value}, seed, metrics),
                "curve": [[t * 1000, found + 3 / t] for t in (1, 2, 4)] if curves else [],
            }
            study.add_trial(
                optuna.trial.create_trial(
                    params={"masking_ratio": value, "seed": seed},
                    distributions=distributions,
                    values=[metrics[metric] for metric in objectives],
                    user_attrs=facts,
                )
            )
    return study


def facts_of(setting: Mapping[str, Any], seed: int, metrics: Mapping[str, float]) -> dict[str, Any]:
    """What `sweep` keeps of a trial."""
    share = float(setting.get("masking_ratio", 0.3))
    return {
        "setting": dict(setting), "seed": seed, "metrics": dict(metrics), "tokens": 4096, "seconds": 2.5,
        "flops": 1e12 * (1 + share), "parameters": 2_100_000, "attempts": 1, "run": "runs/x/trial-000",
    }  # fmt: skip


def empty_study(
    root: Path,
    name: str,
    objectives: Sequence[str],
    space: Mapping[str, Any],
    seeds: Sequence[int],
    **sweep: Any,
) -> optuna.Study:
    """A study without trials, and its folder."""
    folder = root / name
    folder.mkdir(parents=True)
    storage = f"sqlite:///{folder / 'study.db'}"
    study = optuna.create_study(study_name=name, storage=storage, directions=["minimize"] * len(objectives))
    wanted = [{"metric": metric, "direction": "minimize"} for metric in objectives]
    control = (
        {key: values[0] for key, values in space.items()} if sweep.get("sampler", "grid") == "grid" else None
    )
    for key, value in {
        "question": "Does hiding fewer tokens help?", "control": control, "names": {}, "objectives": wanted,
        "seeds": list(seeds), "sweep": {"space": dict(space), "seeds": list(seeds), "sampler": "grid", **sweep},
    }.items():  # fmt: skip
        study.set_user_attr(key, value)
    write_json(folder / "study.json", {"study": name, "storage": None})
    return study
