"""Random numbers as pure functions of integers.

Everything random in a run is drawn from a key: the seed and the place where the number is
needed (a source, an epoch, a micro-batch). So there is no random state to save, and neither
workers nor ranks nor a restart can change what is drawn.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
# increment and multipliers of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
# generators, OOPSLA 2014; finaliser variant 13 of D. Stafford)
_GAMMA = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def key_of(*parts: int | str) -> int:
    """A 63-bit key of the parts; equal parts give equal keys on every machine."""
    state = 0
    for part in parts:
        if isinstance(part, str):
            part = int.from_bytes(hashlib.blake2b(part.encode(), digest_size=8).digest(), "little")
        state = (state + _GAMMA + part) & _MASK
        state = ((state ^ (state >> 30)) * _FIRST) & _MASK
        state = ((state ^ (state >> 27)) * _SECOND) & _MASK
        state ^= state >> 31
    return state >> 1


def _scramble(values: NDArray[np.uint64], key: int) -> NDArray[np.uint64]:
    """The splitmix64 finaliser over an array, keyed."""
    state = values + np.uint64((key + _GAMMA) & _MASK)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(_FIRST)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(_SECOND)
    return state ^ (state >> np.uint64(31))


def permute(positions: NDArray[np.int64], size: int, key: int) -> NDArray[np.int64]:
    """The items at `positions` of a keyed permutation of 0 … size − 1.

    A Feistel network over the next even power of two with cycle walking (Black, Rogaway:
    Ciphers with arbitrary finite domains, CT-RSA 2002), so that any position of a permutation
    of billions is computed without storing it.

    Args:
        positions: int64 [N], each in 0 … size − 1.
        size: length of the permutation.
        key: which permutation.

    Returns:
        int64 [N], each in 0 … size − 1; a bijection of the positions.
    """
    half = np.uint64(max(1, (max(size - 1, 1).bit_length() + 1) // 2))
    low = np.uint64((1 << int(half)) - 1)
    result = positions.astype(np.uint64)
    pending = np.ones(len(result), dtype=bool)
    while pending.any():
        values = result[pending]
        left, right = values >> half, values & low
        for turn in range(4):
            left, right = right, left ^ (_scramble(right, key_of(key, turn)) & low)
        result[pending] = (left << half) | right
        pending = result >= size
    return result.astype(np.int64)
