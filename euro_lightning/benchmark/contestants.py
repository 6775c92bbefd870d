"""Training steps to compare: ours, and transformers' encoder of the same shape, with the same optimizer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from euro_lightning.benchmark.machine import Stopwatch
from euro_lightning.benchmark.workload import MASK, SPECIAL, Workload
from euro_lightning.encoder.attention import Segments, resolve_backend
from euro_lightning.encoder.families import ARCHITECTURES, family_of, to_huggingface_config
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.keys import key_of
from euro_lightning.objective.masking import Masking, Replacement

LEARNING_RATE, BETAS, EPSILON, DECAY, CLIP = 1e-4, (0.9, 0.95), 1e-5, 0.1, 1.0
"""EuroBERT's optimizer (table 4), for all."""


Rows = tuple[Tensor, Tensor]
"""int64 [B, L] ids, and bool [B, L] which of them are tokens."""


@dataclass
class Step:
    """One optimizer step."""

    tokens: int
    """Tokens that were trained on; padding does not count."""
    watch: Stopwatch
    """Knows the seconds of each part."""

    @property
    def total(self) -> float:
        """Seconds of the step; waits for the device."""
        return sum(self.watch.read().values())


class Contestant(ABC):
    """A network, an optimizer and its data; bare, without a training loop around it."""

    def __init__(self, network: nn.Module, device: torch.device, half: bool) -> None:
        self.network = network.to(device).train()
        self.device, self.half = device, half
        self.optimizer = torch.optim.AdamW(
            network.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, weight_decay=DECAY, fused=True
        )

    def _learn(self, watch: Stopwatch, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]
        watch.lap("backward")
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        watch.lap("optimizer")

    def _autocast(self) -> Any:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.half)

    @abstractmethod
    def step(self) -> Step:
        """Trains one step."""


class Ours(Contestant):
    """Packed, eager or compiled."""

    def __init__(
        self, work: Workload, device: torch.device, half: bool, compiled: bool, backend: str
    ) -> None:
        dtype = torch.bfloat16 if half else torch.float32
        network = MaskedLanguageEncoder(work.encoder, resolve_backend(backend, device, dtype))
        network.initialise(work.seed)
        super().__init__(network, device, half)
        if compiled:
            network.compile_step()
        self.work = work
        self.batches = work.batches()
        self.masking = Masking(work.vocabulary, tuple(range(SPECIAL)), MASK, Replacement())

    def step(self) -> Step:
        watch = Stopwatch(self.device)
        batch = next(self.batches).to(self.device)
        number = batch.plan.number
        watch.lap("data")
        masking = self.masking.to(self.device)
        hidden = masking(batch.ids, batch.ordinary, self.work.masking_ratio, number)
        watch.lap("masking")
        segments = Segments(batch.cu_seqlens, batch.lengths, batch.max_length)
        network = self.network
        assert isinstance(network, MaskedLanguageEncoder)
        with self._autocast():
            states = network.encoder(hidden.ids, segments, key_of("dropout", number))
            watch.lap("encoder")
            loss = network.judge(states, hidden.positions, hidden.targets).losses_N.mean()
            watch.lap("head and loss")
        self._learn(watch, loss)
        return Step(len(batch.ids), watch)


def theirs_network(work: Workload) -> Any:
    """transformers' class for masked language modelling of the same shape."""
    import transformers

    arguments = to_huggingface_config(work.encoder, (10_000.0, 10_000.0))
    cls = getattr(transformers, ARCHITECTURES[family_of(work.encoder)])
    torch.manual_seed(work.seed)
    return cls(cls.config_class(**arguments, pad_token_id=None, attn_implementation="sdpa"))


def hide(ids: Tensor, is_token: Tensor, ratio: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Ids with hidden tokens, and labels that are −100 elsewhere, as transformers' collator makes them."""
    hidden = (torch.rand(ids.shape, generator=generator) < ratio) & is_token & (ids >= SPECIAL)
    return ids.masked_fill(hidden, MASK), ids.masked_fill(~hidden, -100)


class Theirs(Contestant):
    """transformers' encoder on rows of a rectangle."""

    def __init__(
        self, work: Workload, device: torch.device, half: bool, rows: Callable[[], Iterator[Rows]]
    ) -> None:
        super().__init__(theirs_network(work), device, half)
        self.work, self.rows = work, rows()
        self.generator = torch.Generator().manual_seed(work.seed)

    def step(self) -> Step:
        watch = Stopwatch(self.device)
        ids, is_token = next(self.rows)
        watch.lap("data")
        inputs, labels = hide(ids, is_token, self.work.masking_ratio, self.generator)
        watch.lap("masking")
        mask = None if bool(is_token.all()) else is_token.long().to(self.device)
        with self._autocast():
            loss = self.network(
                input_ids=inputs.to(self.device), attention_mask=mask, labels=labels.to(self.device)
            ).loss
            watch.lap("encoder")  # with head and loss, which it does not part
        self._learn(watch, loss)
        return Step(int(is_token.sum()), watch)
