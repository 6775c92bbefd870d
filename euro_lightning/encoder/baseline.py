"""Any encoder of transformers behind this package's interface: packed in, packed out.

T tokens, S segments, D width, N hidden positions, V vocabulary.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.model import LOCAL_BASE, Prediction, score
from euro_lightning.errors import ConfigError

_HEADS = (
    ("cls",),  # BERT, DeBERTa
    ("lm_head",),  # RoBERTa, XLM-RoBERTa, CamemBERT, MPNet, EuroBERT, ESM
    ("head", "decoder"),  # ModernBERT
    ("predictions",),  # ALBERT
    ("generator_predictions", "generator_lm_head"),  # ELECTRA
)
"""Names of the modules, in order, that make scores of the vocabulary from hidden states."""

_LEAST_FILL = 0.75
"""A segment joins a padded group when it fills at least this share of the group's length."""


class HuggingFaceEncoder(nn.Module):
    """An encoder of transformers over packed segments; padding never leaves it.

    Segments of similar length are padded to the longest of them and run as a batch, so neither
    neighbours nor padding can be seen, whatever the attention implementation does with positions.
    """

    def __init__(self, model: nn.Module) -> None:
        """
        Args:
            model: an encoder, or an encoder with a head, of transformers.
        """
        super().__init__()
        self.model: Any = model
        base = self.base
        embeddings = getattr(base, "embeddings", None)
        first = getattr(embeddings, "padding_idx", None)
        rows = getattr(getattr(embeddings, "position_embeddings", None), "num_embeddings", None)
        # RoBERTa and what comes from it number positions from the padding's id + 1
        self._first_position = 0 if first is None else int(first) + 1
        self._takes_positions = "position_ids" in inspect.signature(base.forward).parameters
        longest = (
            rows - self._first_position if rows else getattr(base.config, "max_position_embeddings", None)
        )
        self.max_length: int = longest or 1 << 30
        """Longest segment."""

    @property
    def base(self) -> Any:
        """The encoder of transformers without its head."""
        return getattr(self.model, str(self.model.base_model_prefix), self.model)

    def encode(self, ids_T: Tensor, segments: Segments, key: int | None = None) -> Tensor:
        """int64 [T] to the last hidden states [T, D].

        Args:
            ids_T: token ids.
            segments: where segments lie in the T tokens; none longer than `max_length`.
            key: what dropout depends on while training; None draws from the global state.
        """
        parts, places = [], []
        pad = self.base.config.pad_token_id or 0
        with keyed_draws(key if self.training else None, ids_T.device):
            for group in _groups(segments.lengths):
                index, mask = _padded(segments.lengths, group)
                inside = mask.flatten().nonzero().squeeze(1)
                places.append(index.flatten()[inside])
                index, mask, inside = (x.to(ids_T.device) for x in (index, mask, inside))
                inputs = {"input_ids": ids_T[index].masked_fill(~mask, pad), "attention_mask": mask.long()}
                if self._takes_positions:
                    places_in = torch.arange(index.shape[1], device=ids_T.device) + self._first_position
                    inputs["position_ids"] = places_in.expand_as(index)
                hidden = self.base(**inputs).last_hidden_state
                parts.append(hidden.flatten(0, 1)[inside])
        order = torch.cat(places).argsort().to(ids_T.device)
        return torch.cat(parts)[order]

    def forward(self, ids_T: Tensor, segments: Segments, key: int | None = None) -> Any:
        """See `encode`."""
        return self.encode(ids_T, segments, key)


def _groups(lengths: tuple[int, ...]) -> Iterator[list[int]]:
    """Numbers of segments that are padded together."""
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    group: list[int] = []
    for number in order:
        if group and lengths[number] < _LEAST_FILL * lengths[group[0]]:
            yield group
            group = []
        group.append(number)
    yield group


def _padded(lengths: tuple[int, ...], group: list[int]) -> tuple[Tensor, Tensor]:
    """int64 [G, L] place of each token in the packed batch, bool [G, L] which are tokens."""
    starts = torch.tensor([0, *lengths]).cumsum(0)
    own = torch.tensor([lengths[number] for number in group])
    along = torch.arange(int(own.max()))
    mask = along[None, :] < own[:, None]
    return (starts[group][:, None] + along[None, :]).where(mask, 0), mask


@contextlib.contextmanager
def keyed_draws(key: int | None, device: torch.device) -> Iterator[None]:
    """Seeds what draws from the global random state, which is afterwards as before."""
    if key is None:
        yield
        return
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(key)
        yield


class BaselineMaskedLanguageEncoder(HuggingFaceEncoder):
    """A masked language model of transformers, with the interface of `MaskedLanguageEncoder`."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self._head = _head_of(model)

    @property
    def rotary_bases(self) -> tuple[float, float]:
        """The defaults: a baseline keeps its own positions."""
        return LOCAL_BASE, LOCAL_BASE

    def set_rotary_base(self, base: float, local: float | None = None) -> None:
        """Refuses, for a key that does nothing must not exist.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"data.phases.NAME.rotary_base is {base:g}, but a baseline keeps its own positions: leave it out"
        )

    def facts(self) -> dict[str, Any]:
        """What a checkpoint must remember to build it again."""
        return {"baseline": self.model.config.to_dict(), "architecture": type(self.model).__name__}

    def logits(
        self, ids_T: Tensor, segments: Segments, positions_N: Tensor, key: int | None = None
    ) -> Tensor:
        """[N, V] at the given positions; the head sees no others."""
        return self._head(self.encode(ids_T, segments, key)[positions_N])

    def forward(  # type: ignore[override]
        self,
        ids_T: Tensor,
        segments: Segments,
        positions_N: Tensor,
        targets_N: Tensor,
        key: int | None = None,
    ) -> Prediction:
        """See `MaskedLanguageEncoder.forward`."""
        return score(self.logits(ids_T, segments, positions_N, key), targets_N, self.training)


def _head_of(model: Any) -> Callable[[Tensor], Tensor]:
    """The part of a model that makes scores of hidden states, compared with the model itself.

    Raises:
        ConfigError: its parts are not known here.
    """
    for names in _HEADS:
        if all(isinstance(getattr(model, name, None), nn.Module) for name in names):
            break
    else:
        raise ConfigError(
            f"model.baseline: the head of {type(model).__name__} is not known here; known are those of BERT,"
            " RoBERTa, DeBERTa, ALBERT, ELECTRA, MPNet, ModernBERT, EuroBERT and their kin"
        )

    def head(hidden: Tensor) -> Tensor:
        for name in names:
            hidden = getattr(model, name)(hidden)
        return hidden

    training = model.training
    model.eval()
    with torch.no_grad():
        ids = torch.arange(3, 6, device=next(model.parameters()).device)[None] % model.config.vocab_size
        base = getattr(model, model.base_model_prefix)
        same = torch.allclose(model(input_ids=ids).logits, head(base(input_ids=ids)[0]), rtol=1e-4, atol=1e-4)
    model.train(training)
    if not same:
        raise ConfigError(
            f"model.baseline: {type(model).__name__} does more in its head than {' and '.join(names)}"
        )
    return head
