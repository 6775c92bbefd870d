"""The shipped protocols are those of the papers, and what cannot be is told in one line."""

import pytest

from euro_lightning.documentation import field_texts
from euro_lightning.errors import ConfigError
from euro_lightning.evaluation.protocol import Protocol, protocol_of
from euro_lightning.settings import read_file
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "experiments" / "evaluation" / "protocols"


def shipped(name: str) -> Protocol:
    return protocol_of(read_file(str(FOLDER / f"{name}.yaml")))


def test_every_field_is_documented() -> None:
    assert field_texts(Protocol).keys() == Protocol.__dataclass_fields__.keys()


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_protocol_can_be_used(path: object) -> None:
    assert protocol_of(read_file(str(path))).problems() == []


def test_eurobert_warms_up_for_a_tenth_and_falls_linearly() -> None:
    protocol = shipped("eurobert")
    rates = [protocol.rate(1.0, step) for step in (0, 500, 1000, 5500, 10000)]
    assert rates == pytest.approx([0, 0.5, 1, 0.5, 0])
    ratios = [b / a for a, b in zip(protocol.learning_rates, protocol.learning_rates[1:], strict=False)]
    assert len(ratios) == 9 and all(1.25 < ratio < 1.35 for ratio in ratios)


def test_bertomelo_falls_as_its_trainers_do() -> None:
    """transformers' linear schedule without warm-up, and its warm-up, stable, decay with a cosine."""
    import transformers
    from torch import nn
    from torch.optim import AdamW

    for name, warmup, stable in (("rte", 0.0, 0.0), ("sts", 0.1, 0.2), ("ner", 0.1, 0.3)):
        protocol = shipped(f"bertomelo-{name}")
        steps = protocol.steps
        optimizer = AdamW(nn.Linear(1, 1).parameters(), lr=1.0)
        if name == "rte":
            theirs = transformers.get_linear_schedule_with_warmup(optimizer, 0, steps)
        else:
            theirs = transformers.get_wsd_schedule(
                optimizer, num_warmup_steps=round(warmup * steps), num_stable_steps=round(stable * steps),
                num_decay_steps=round((1 - warmup - stable) * steps), decay_type="cosine",
            )  # fmt: skip
        rule = theirs.lr_lambdas[0]
        for step in range(0, steps, 97):
            assert protocol.rate(1.0, step) == pytest.approx(rule(step), abs=1e-6), (name, step)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"stpes": 3}, r"unknown key 'protocol.stpes'; did you mean 'steps'"),
        ({"steps": "many"}, r"protocol.steps is 'many': it must be a whole number"),
        ({"steps": -1}, r"protocol.steps is -1: it must be at least 0"),
        ({"learning_rates": []}, r"protocol.learning_rates is empty: give at least one"),
        ({"learning_rates": [-1.0]}, r"protocol.learning_rates: one is -1.0: it must be above 0"),
        ({"seeds": [1, 1]}, r"protocol.seeds has a value twice"),
        ({"warmup": "60%", "decay": "60%"}, r"warmup and decay take 1,200 steps, there are 1,000"),
        ({"pooling": "max"}, r"protocol.pooling is 'max': choose one of mean, bos, late"),
        ({"temperature": 0.0}, r"protocol.temperature is 0.0: it must be above 0"),
    ],
)
def test_what_cannot_be_is_one_line(tree: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        protocol_of(tree)
    assert "\n" not in str(caught.value)
