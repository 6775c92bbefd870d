"""Which tokens are hidden, and what replaces them.

An exact number of positions is hidden in every micro-batch, so that all micro-batches weigh
the same, whatever ranks and accumulation do, and shapes stay the same for compilation.
T tokens, N masked positions.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from euro_lightning.keys import key_of


@dataclass(frozen=True)
class Replacement:
    """What stands in the place of a hidden token; the three shares sum to one.

    EuroBERT's code always puts the mask token; BERT, ModernBERT and BERTomelo use 0.8, 0.1, 0.1.
    """

    mask: float = 1.0
    """Share replaced by the mask token."""

    random: float = 0.0
    """Share replaced by a random ordinary token."""

    keep: float = 0.0
    """Share left as it is (and predicted all the same)."""

    def problems(self, where: str) -> list[str]:
        """What is wrong with this split, one line each."""
        shares = (self.mask, self.random, self.keep)
        if min(shares) < 0:
            return [f"{where}: a share of the replacement is negative"]
        if abs(sum(shares) - 1) > 1e-6:
            return [f"{where}: mask, random and keep sum to {sum(shares):.6g} instead of 1"]
        return []


class Masked(NamedTuple):
    """Input with hidden tokens."""

    ids: Tensor
    """int64 [T]: the input."""
    positions: Tensor
    """int64 [N], ascending: where tokens were hidden."""
    targets: Tensor
    """int64 [N]: what stood there."""


class Masking:
    """Hides tokens of micro-batches; see the module's docstring."""

    def __init__(
        self, vocabulary: int, special_ids: tuple[int, ...], mask_id: int, replacement: Replacement
    ) -> None:
        """Args:
        vocabulary: number of token ids.
        special_ids: ids that are never hidden and never drawn.
        mask_id: the mask token.
        replacement: what stands in the place of a hidden token.
        """
        self.mask_id = mask_id
        self.replacement = replacement
        ordinary = torch.ones(vocabulary, dtype=torch.bool)
        ordinary[list(special_ids)] = False
        self.is_ordinary = ordinary
        self.ordinary_ids = ordinary.nonzero().squeeze(1)

    def to(self, device: torch.device) -> "Masking":
        """Moves the tables to a device, once."""
        if self.is_ordinary.device != device:
            self.is_ordinary = self.is_ordinary.to(device)
            self.ordinary_ids = self.ordinary_ids.to(device)
        return self

    def __call__(self, ids: Tensor, ordinary: int, ratio: float, *key: int | str) -> Masked:
        """Hides round(ratio × T) ordinary tokens, or all of them when there are fewer.

        Args:
            ids: int64 [T].
            ordinary: how many of them are not special, known on the host so that no device is
                waited for.
            ratio: share of the tokens to hide, 0 to 1.
            key: what the draw depends on, for example the seed and the micro-batch's index.
        """
        generator = torch.Generator(ids.device).manual_seed(key_of(*key))
        count = min(round(ratio * len(ids)), ordinary)
        priority = torch.rand(len(ids), generator=generator, device=ids.device, dtype=torch.float64)
        priority.masked_fill_(~self.is_ordinary[ids], 2.0)
        order = torch.topk(priority, count, largest=False, sorted=True).indices
        masks = round(self.replacement.mask * count)
        randoms = min(round((self.replacement.mask + self.replacement.random) * count), count) - masks
        hidden = ids.clone()
        hidden[order[:masks]] = self.mask_id
        if randoms:
            draw = torch.randint(len(self.ordinary_ids), (randoms,), generator=generator, device=ids.device)
            hidden[order[masks : masks + randoms]] = self.ordinary_ids[draw]
        positions = order.sort().values
        return Masked(hidden, positions, ids[positions])
