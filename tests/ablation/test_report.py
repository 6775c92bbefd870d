"""report STUDY: what it says of studies that are whole, unfinished, small, broken or searched freely."""

import re
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest

from euro_lightning.__main__ import main
from tests.ablation.studies import METRIC, empty_study, facts_of, make_study, metrics_of

Complaint = Callable[..., str]
LUCK = {1: 0.3, 2: -0.2, 3: 0.1, 4: 0.0}
NOISE = {(0.3, 1): 0.01, (0.3, 2): -0.01, (0.3, 3): 0.005, (0.1, 1): -0.008, (0.1, 2): 0.012}


def losses(effects: dict[float, float], noise: float = 1.0) -> Callable[[float, int], float]:
    """Settings with an effect, seeds with a luck that settings share, and a little of their own."""
    return lambda value, seed: (
        5 + effects.get(value, 0) + LUCK[seed] + noise * NOISE.get((value, seed), 0.002)
    )


def reported(tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, str]:
    """The answer on the terminal and the report's Markdown."""
    capsys.readouterr()
    assert main(["report", "masking_ratio", "--root", str(tmp_path), *more]) == 0
    question, answer, _ = capsys.readouterr().out.strip().splitlines()
    assert question == "Does hiding fewer tokens help?"
    return answer, next(tmp_path.glob("*/report.md")).read_text()


def row_of(text: str, setting: str, table: str = METRIC) -> list[str]:
    part = text.split(f"## {table}")[1].split("\n## ")[0]
    [line] = [line for line in part.splitlines() if line.startswith(f"| {setting} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_setting_that_is_better_is_a_yes_although_luck_is_larger(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_study(tmp_path, losses({0.3: -0.2, 0.1: 0.15}))
    answer, text = reported(tmp_path, capsys)
    assert answer.startswith(f"Yes: masking ratio 0.3 is better than masking ratio 0.5 in {METRIC} by 0.2")
    assert "3 seeds" in answer and answer.endswith("; worse is 0.1.")
    better, worse = row_of(text, "0.3"), row_of(text, "0.1")
    assert (better[-1], worse[-1]) == ("better", "worse")
    assert float(better[4]) == pytest.approx(-0.2, abs=0.01), "less is better"
    low, high = map(float, better[5].split(" to "))
    assert low < float(better[4]) < high < 0
    assert float(better[7]) >= float(better[6]), "corrected for two comparisons"
    control = row_of(text, "0.5")
    assert control[1:3] == ["3", "5.069"] and control[4] == "control"


def test_gains_that_are_ruled_out_are_a_no_and_those_that_are_not_cannot_be_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_study(tmp_path, losses({}))
    answer, text = reported(tmp_path, capsys, "--margin", "0.02")
    assert answer.startswith("No: no setting is better than masking ratio 0.5")
    assert "gains below 2.0% of the control's mean" in text
    answer, _ = reported(tmp_path, capsys, "--margin", "0.001")
    assert answer.startswith("Cannot tell: no gain over masking ratio 0.5")
    assert re.search(r"gains of up to 0\.0\d+ are not ruled out; the design would have seen 0\.0\d+", answer)


def test_one_seed_has_no_intervals_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_study(tmp_path, losses({0.3: -0.2}), seeds=[1])
    answer, text = reported(tmp_path, capsys)
    assert answer.startswith("Cannot tell: one seed has no error bar; the largest gain")
    assert "One seed has no spread" in text
    row = row_of(text, "0.3")
    assert row[3] == "–" and row[5:8] == ["–", "–", "–"]
    assert "would have seen with" not in text.split("## How to read this")[0]


def test_an_unfinished_study_says_what_is_missing_and_pairs_what_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = losses({0.3: -0.2})
    make_study(
        tmp_path, lambda value, seed: None if (value, seed) in {(0.5, 3), (0.1, 2)} else whole(value, seed)
    )
    answer, text = reported(tmp_path, capsys)
    assert answer.startswith("So far, with 7 of 9 points: ")
    assert "7 trials complete, 2 of 9 missing" in text
    assert row_of(text, "0.3")[1] == "3" and row_of(text, "0.5")[1] == "2"
    assert float(row_of(text, "0.3")[4]) == pytest.approx(-0.2, abs=0.02), "over the two seeds that both have"


def test_a_study_without_a_trial_can_be_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_study(tmp_path, lambda *_: None)
    answer, _ = reported(tmp_path, capsys)
    assert answer == "So far, with 0 of 9 points: Cannot tell: no trial has been scored yet."


def test_failed_and_pruned_trials_are_listed_with_their_reasons_and_are_in_no_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = losses({0.3: -0.2})
    study = make_study(
        tmp_path, lambda value, seed: None if (value, seed) == (0.1, 3) else whole(value, seed)
    )
    for state, reason in ((optuna.trial.TrialState.FAIL, "exit code 1: out of memory"),
                          (optuna.trial.TrialState.PRUNED, "loss is not a number")):  # fmt: skip
        facts = facts_of({"masking_ratio": 0.1}, 3, {METRIC: 99.0})
        study.add_trial(optuna.trial.create_trial(state=state, user_attrs={**facts, "reason": reason}))
    answer, text = reported(tmp_path, capsys)
    assert not answer.startswith("So far"), "a pruned point has ended"
    assert "8 trials complete, 1 pruned, 1 failed" in text
    assert row_of(text, "0.1")[1] == "2" and float(row_of(text, "0.1")[2]) < 6
    assert "| 8 | 0.1 | 3 | failed | 4,096 | exit code 1: out of memory |" in text
    assert "| 9 | 0.1 | 3 | pruned | 4,096 | loss is not a number |" in text


def test_sources_costs_and_curves_are_shown_and_the_page_needs_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_study(tmp_path, losses({0.3: -0.2}), objectives=(METRIC, "validation/loss@0.1"))
    _, text = reported(tmp_path, capsys)
    assert "for all 6 comparisons" in text and re.search(r"\| fr \| -0\.2\d+ ± 0\.0\d+ \* \|", text)
    assert "## validation/loss@mean (decides)" in text and "## validation/loss@0.1" in text
    cost = next(line for line in text.splitlines() if line.startswith("| 0.3 | 2,100,000 | 4,096 | 2.5 |"))
    base = next(line for line in text.splitlines() if line.startswith("| 0.5 | 2,100,000 | 4,096 | 2.5 |"))
    hours = [float(line.rsplit("|", 2)[1]) for line in (cost, base)]
    assert hours[0] / hours[1] == pytest.approx(1.3 / 1.5, rel=1e-2), "in proportion to FLOPs"
    folder = tmp_path / "masking_ratio-0123abcd"
    figures = {path.name for path in folder.glob("report-*.png")}
    assert figures == {f"report-{name}.png" for name in ("settings", "settings-2", "curves", "sources")}
    page = (folder / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert not re.search(r'(src|href)="(?!data:)', page)


def test_a_free_search_shows_its_best_and_what_matters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    space = {"data.phases.pretrain.learning_rate.peak": {"low": 1e-4, "high": 1e-1, "log": True},
             "data.phases.pretrain.masking_ratio": {"low": 0.1, "high": 0.6}}  # fmt: skip
    study = empty_study(
        tmp_path, "masking_ratio-0123abcd", [METRIC], space, [1], sampler="random", budget={"trials": 24}
    )
    study.set_user_attr("names", {"data.phases.pretrain.learning_rate.peak": "learning_rate"})
    study.sampler = optuna.samplers.RandomSampler(seed=1)
    for _ in range(20):
        trial = study.ask()
        setting = {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-1, log=True),
                   "masking_ratio": trial.suggest_float("masking_ratio", 0.1, 0.6)}  # fmt: skip
        loss = 5 + abs(setting["learning_rate"] - 0.01) * 50 + 0.01 * setting["masking_ratio"]
        for key, value in facts_of(setting, 1, metrics_of(loss)).items():
            trial.set_user_attr(key, value)
        study.tell(trial, loss)
    answer, text = reported(tmp_path, capsys)
    assert answer.startswith(
        "So far, with 20 of 24 points: Cannot tell yes or no: the settings were searched freely"
    )
    importance = dict(re.findall(r"\| (\w+) \| (\d+)% \|", text))
    assert int(importance["learning_rate"]) > int(importance["masking_ratio"])
    best = min(study.trials, key=lambda t: t.value or 9)
    assert f"| {best.number} |" in text.split("| --- |")[1]
    assert (tmp_path / "masking_ratio-0123abcd" / "report-search.png").is_file()


def test_curves_come_from_mlflow_where_optuna_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient

    study = make_study(tmp_path, losses({}), curves=False, seeds=[1])
    client = MlflowClient(f"sqlite:///{tmp_path / 'masking_ratio-0123abcd' / 'mlflow.db'}")
    run = client.create_run(client.create_experiment("masking_ratio")).info.run_id
    for step, value in ((1000, 6.0), (2000, 5.5), (2000, 5.4)):
        client.log_metric(run, "validation/loss/mean", value, step=step)
    facts = {**study.trials[0].user_attrs, "mlflow_run_id": run, "seed": 2}
    study.add_trial(optuna.trial.create_trial(values=[5.0], user_attrs=facts))
    reported(tmp_path, capsys)
    assert (tmp_path / "masking_ratio-0123abcd" / "report-curves.png").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report"], "STUDY is missing"),
        (["report", "nothing", "--root", "ROOT"], "no such study in ROOT (studies there: masking_ratio-0123abcd)"),
        (["report", "masking_ratio", "--root", "ROOT", "--margin", "2"], "--margin is 2: it is a share"),
        (["report", "x", "--storage", "sqlite:////nowhere/x.db"], "cannot be read"),
        (["report", "maskin_ratio-0123abcd", "--storage", "STORAGE"], "did you mean 'masking_ratio-0123abcd'?"),
        (["report", "plain", "--storage", "STORAGE"], "was not made by sweep"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(
    tmp_path: Path, complaint: Complaint, arguments: list[str], message: str
) -> None:
    make_study(tmp_path, losses({}))
    storage = f"sqlite:///{tmp_path / 'masking_ratio-0123abcd' / 'study.db'}"
    optuna.create_study(study_name="plain", storage=storage)
    words = [word.replace("ROOT", str(tmp_path)).replace("STORAGE", storage) for word in arguments]
    found = complaint(2 if len(arguments) == 1 or "--margin" in arguments else 1, *words)
    assert message.replace("ROOT", str(tmp_path)) in found


def test_a_password_in_the_storage_is_not_shown(complaint: Complaint) -> None:
    message = complaint(1, "report", "x", "--storage", "postgresql://me:secret@127.0.0.1:9/optuna")
    assert "secret" not in message and "127.0.0.1:9" in message
