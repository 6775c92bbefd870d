"""Faster ways to the same step: compiled, in bfloat16, recomputed, the loss in chunks."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.config import PRESETS, EncoderConfig
from euro_lightning.encoder.model import MaskedLanguageEncoder
from tests.conftest import REPOSITORY

EURO = EncoderConfig(3, 64, 4, 2, 96, vocabulary=211)
MODERN = replace(
    PRESETS["modernbert-base"], layers=4, width=64, heads=4, key_value_heads=4, feed_forward=96, vocabulary=211,
    window=16, initializer_std=0.1,
)  # fmt: skip
LENGTHS = [[100, 50, 106], [200, 56], [30] * 8 + [16], [1] * 16 + [240]]


def built(config: EncoderConfig) -> MaskedLanguageEncoder:
    network = MaskedLanguageEncoder(config)
    network.initialise(3)
    return network.train()


def trained(network: MaskedLanguageEncoder, steps: int, half: bool = False) -> list[float]:
    """The losses of some steps of AdamW over segments of changing number and length."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for step in range(steps):
        ids = torch.randint(211, (256,), generator=generator) // 7
        places = torch.randperm(256, generator=generator)[:128].sort().values
        segments = Segments.from_lengths(LENGTHS[step % len(LENGTHS)])
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = network(ids, segments, places, ids[places], step).losses_N.mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.timeout(280)
@pytest.mark.parametrize("config", [EURO, MODERN], ids=["eurobert", "modernbert"])
def test_compiled_without_a_graph_break_and_without_compiling_anew_it_learns_the_same(
    config: EncoderConfig,
) -> None:
    torch._dynamo.reset()
    eager = trained(built(config), 50)
    network = built(config)
    network.compile_step()  # fullgraph: a graph break is an error
    counters = torch._dynamo.utils.counters
    counters.clear()
    first = trained(network, 4)
    compiled = counters["stats"]["unique_graphs"]
    with torch._dynamo.config.patch(error_on_recompile=True):
        again = trained(built_like(network, config), 50)
    assert counters["stats"]["unique_graphs"] == compiled
    assert not counters["graph_break"]
    assert first == pytest.approx(eager[:4], abs=1e-4)
    assert again == pytest.approx(eager, abs=2e-3)


def built_like(network: MaskedLanguageEncoder, config: EncoderConfig) -> MaskedLanguageEncoder:
    """The compiled network with its first weights."""
    network.load_state_dict(built(config).state_dict())
    return network


@pytest.mark.parametrize("config", [EURO, MODERN], ids=["eurobert", "modernbert"])
def test_bfloat16_learns_the_same_within_its_precision(config: EncoderConfig) -> None:
    eager, half = trained(built(config), 50), trained(built(config), 50, half=True)
    assert eager[-1] < eager[0] - 0.5
    assert half == pytest.approx(eager, abs=0.05)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("config", [EURO, MODERN], ids=["eurobert", "modernbert"])
def test_recomputed_blocks_learn_exactly_the_same(config: EncoderConfig, every: int) -> None:
    network = built(config)
    network.encoder.recompute_every = every
    assert trained(network, 12) == trained(built(config), 12)


@pytest.mark.parametrize("half", [False, True])
def test_the_loss_in_chunks_is_the_loss(half: bool) -> None:
    network, plain = built(MODERN), built(MODERN)
    network.logits_bytes = 4 * 211 * 37  # 37 rows, and 128 are hidden
    tolerance = 2e-3 if half else 1e-4  # the parts of a gradient are rounded one by one
    assert trained(network, 20, half) == pytest.approx(trained(plain, 20, half), abs=tolerance)


def test_losses_are_float32_whatever_the_step_is_in() -> None:
    network = built(EURO)
    ids = torch.arange(200)
    for limit in (None, 4 * 211 * 10):
        network.logits_bytes = limit
        with torch.autocast("cpu", torch.bfloat16):
            losses: Tensor = network(ids, Segments.from_lengths([200]), ids[:50], ids[:50]).losses_N
        assert losses.dtype == torch.float32


SCRIPT = """
import resource, torch
from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.model import MaskedLanguageEncoder
network = MaskedLanguageEncoder(EncoderConfig(2, 256, 4, 2, 512, vocabulary=128_256))
network.initialise(0)
network.train()
network.logits_bytes = 1 << 29
for parameter in network.parameters():
    parameter.grad = torch.zeros_like(parameter)
moments = [torch.zeros_like(p) for p in network.parameters() for _ in range(2)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ids = torch.randint(128_256, (8192,))
places = torch.arange(0, 8192, 2)
network(ids, Segments.from_lengths([512] * 16), places, ids[places]).losses_N.mean().backward()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20)
"""


def test_a_large_vocabulary_stays_within_3_gib_above_weights_and_optimizer() -> None:
    """128,256 tokens of vocabulary, 8,192 tokens, half of them hidden: whole logits alone take 2 GiB, thrice."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
        timeout=200,
    )
    gib = float(done.stdout)
    print(f"{gib:.2f} GiB")
    assert gib < 3
