"""The recipe of byte-level BPE: for code and any language, in the manner of Llama 3."""

from collections.abc import Iterable, Iterator

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers

BOS, EOS, PAD, MASK, PARALLEL_SEP = SPECIAL = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|pad|>",
    "<|mask|>",
    "<|parallel_sep|>",
)

# Indentation in steps of 8 and 4, so that code costs few tokens; words with at most one space
# before them and with their combining marks, without which Hindi words fall apart; digits in
# groups of three, as Llama 3 and EuroBERT; then signs, line ends and what space is left.
_PIECES = r" {8}| {4}| ?[\p{L}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]+|[\r\n]+|\s+(?!\S)|\s"

_INDENTS_PER_CHARACTER = 1 / 20
"""Runs of eight spaces added to the training text. The k-th merge replaces at most bytes / k
pairs, so at this rate the runs are merged among the first sixty, whatever the text is."""


def learn_bpe(texts: Iterable[str], vocabulary: int) -> tokenizers.Tokenizer:
    """Learns a byte-level BPE (Sennrich et al. 2016; bytes as GPT-2, Radford et al. 2019).

    The vocabulary has exactly the size asked for, unless the text has too few distinct pieces.
    """
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[AddedToken(name, special=True, normalized=False) for name in SPECIAL],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(_with_indents(texts), trainer)
    return inner


def _with_indents(texts: Iterable[str]) -> Iterator[str]:
    characters = 0
    for text in texts:
        characters += len(text)
        yield text
    left = int(characters * _INDENTS_PER_CHARACTER) + 100
    while left > 0:
        yield " " * 8 * min(left, 10_000)
        left -= 10_000
