"""From hidden states to vectors and scores.

T tokens, S sequences, D width, C outputs.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.layers import keyed_dropout
from euro_lightning.evaluation.protocol import Pooling
from euro_lightning.keys import key_of

_DEVIATION = 0.02
"""Of new matrices, as BERT's (Devlin et al. 2019)."""


def mean_of_segments(states_TD: Tensor, segments: Segments) -> Tensor:
    """Mean over the tokens of each sequence, float32 [S, D]; special tokens count as others do."""
    counts = segments.cu_seqlens.diff().long()
    numbers = torch.arange(len(segments.lengths), device=states_TD.device)
    owner_T = torch.repeat_interleave(numbers, counts, output_size=len(states_TD))
    sums = states_TD.new_zeros(len(segments.lengths), states_TD.shape[1], dtype=torch.float32)
    return sums.index_add(0, owner_T, states_TD.float()) / counts[:, None]


def pool(states_TD: Tensor, segments: Segments, pooling: Pooling) -> Tensor:
    """A vector for each sequence, float32 [S, D]; late is for scores, and the mean for vectors."""
    if pooling == "bos":
        return states_TD[segments.cu_seqlens[:-1].long()].float()
    return mean_of_segments(states_TD, segments)


class Head(nn.Module):
    """New weights that make scores of an encoder's states."""

    def __init__(self, width: int, outputs: int, dense: bool, dropout: float, seed: int) -> None:
        """
        Args:
            width: D.
            outputs: C.
            dense: whether a dense layer and GELU stand before the last layer, as in transformers'
                EuroBERT and ModernBERT for whole texts.
            dropout: before the last layer, while training.
            seed: of the new weights.
        """
        super().__init__()
        self.dense = nn.Linear(width, width) if dense else None
        self.last = nn.Linear(width, outputs)
        self.dropout = dropout
        generator = torch.Generator().manual_seed(key_of("head", seed))
        with torch.no_grad():
            for parameter in self.parameters():
                if parameter.ndim < 2:
                    parameter.zero_()
                else:
                    parameter.normal_(0, _DEVIATION, generator=generator)

    def forward(self, states_ND: Tensor, key: int) -> Tensor:
        """[N, D] to [N, C]; dropout depends on the key."""
        if self.dense is not None:
            states_ND = gelu(self.dense(states_ND))
        if self.training and self.dropout:
            states_ND = keyed_dropout(states_ND, self.dropout, torch.tensor(key_of("head", key)))
        return self.last(states_ND)  # type: ignore[no-any-return]
