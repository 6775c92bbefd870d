"""Keeps the C library from giving memory back after every operation of a training step on the CPU."""

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt (malloc.h)."""

_KEPT = 1 << 30
"""Bytes of a tensor up to which it is allocated where freed memory is used again."""

_ALL = -1
"""Gives nothing back, however much is free."""


def keep_freed_memory() -> bool:
    """Makes freed memory be used again instead of being unmapped, for the rest of the process.

    The tensors of a step are freed and allocated again thousands of times. glibc maps each of more
    than 32 MiB anew, and the system clears every page of it: up to a quarter of the step (2 cores,
    8 layers of width 512, bfloat16: 1,841 tokens a second become 2,292). What is free in the end is
    kept whole, for a step's logits are freed together and would be given back together.

    Returns:
        Whether there was such a setting; other C libraries than glibc have none.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _KEPT)) and bool(mallopt(_TRIM_THRESHOLD, _ALL))
