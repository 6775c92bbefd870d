"""The planner decides which segments are trained on, in which order.

It is a pure function of the store, the phases, the batch and the seed: it yields the global
batches of a run one after the other, from any cursor. A cursor is a few integers per source,
so resuming costs nothing and is exact for any number of workers and ranks. It plans millions
of tokens per second on one core.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch.utils.data import Sampler

from euro_lightning.data.cropping import Lengths, fit
from euro_lightning.data.mixture import FairQueue, Share, normalise
from euro_lightning.data.packing import Plan, Slice
from euro_lightning.data.phase import Timeline
from euro_lightning.data.store import Documents
from euro_lightning.errors import ConfigError
from euro_lightning.keys import key_of, permute

_BLOCK = 1024
"""Documents whose place in the shuffled order is computed at once."""


class Stream:
    """The documents of one source without end, each epoch in another order."""

    def __init__(self, name: str, share: Share, documents: Documents, seed: int) -> None:
        self.name = name
        self.documents = documents
        self.chosen = np.flatnonzero(np.isin(documents.quality, share.quality)) if share.quality else None
        self.size = len(documents) if self.chosen is None else len(self.chosen)
        self.key = key_of(seed, name)
        self.epoch = self.position = self.start = 0
        self._block = (-1, -1)
        if self.size == 0:
            raise ConfigError(
                f"mixture.{name}: no document of quality {list(share.quality)}; score the corpus or drop quality"
            )

    @property
    def state(self) -> list[int]:
        """Epoch, position in the epoch's order, tokens of the document already served."""
        return [self.epoch, self.position, self.start]

    def seek(self, state: list[int]) -> None:
        """Continues from a state."""
        self.epoch, self.position, self.start = state
        self._load()

    def draw(self, lengths: Lengths) -> None:
        """Draws the wanted length of the next segment, and how long it can be at most."""
        self.reach = lengths.maximum if lengths.kind == "concatenated" else self.left
        self.wanted = min(lengths.draw(self.key, self.epoch, self.document, self.start), self.reach)

    def take(self, length: int) -> list[Slice]:
        """Serves the next `length` tokens: a piece of the current document, or of it and the next ones."""
        parts: list[Slice] = []
        while length:
            size = min(length, self.left)
            parts.append(Slice(self.name, self.document, self.start, size, self.epoch, bool(parts)))
            length -= size
            self.start += size
            self.left -= size
            if self.left == 0:
                self.position, self.start = self.position + 1, 0
                if self.position == self.size:
                    self.epoch, self.position = self.epoch + 1, 0
                self._load()
        return parts

    def _load(self) -> None:
        block, row = divmod(self.position, _BLOCK)
        if self._block != (self.epoch, block):
            first = block * _BLOCK
            positions = np.arange(first, min(first + _BLOCK, self.size), dtype=np.int64)
            order = permute(positions, self.size, key_of(self.key, self.epoch))
            order = order if self.chosen is None else self.chosen[order]
            self._order, self._sizes = order.tolist(), self.documents.lengths(order).tolist()
            self._block = (self.epoch, block)
        self.document = self._order[row]
        self.left = self._sizes[row] - self.start


def stream_name(source: str, share: Share) -> str:
    """The name under which a source's cursor is kept; other buckets are another stream."""
    return source + ("@" + "".join(map(str, sorted(share.quality))) if share.quality else "")


class Planner:
    """Plans global batches; see the module's docstring."""

    def __init__(
        self,
        sources: Mapping[str, Documents],
        timeline: Timeline,
        micro_batch_tokens: int,
        seed: int,
    ) -> None:
        self.sources = sources
        self.timeline = timeline
        self.micro_batch_tokens = micro_batch_tokens
        self.seed = seed

    @staticmethod
    def beginning() -> dict[str, Any]:
        """The cursor of a run that has not begun."""
        return {"tokens": 0, "micro_batch": 0, "phase": "", "served": {}, "streams": {}, "short_segments": 0}

    def global_batches(self, cursor: Mapping[str, Any]) -> Iterator[list[Plan]]:
        """The micro-batches of each global batch from `cursor` to the end of the run."""
        clock, index = int(cursor["tokens"]), int(cursor["micro_batch"])
        states: dict[str, list[int]] = dict(cursor["streams"])
        served: dict[str, int] = dict(cursor["served"])
        short, phase_name = int(cursor.get("short_segments", 0)), cursor["phase"]
        opened: dict[str, Stream] = {}
        streams: list[Stream] = []
        while clock < self.timeline.tokens:
            name, phase, into, phase_tokens = self.timeline.at(clock)
            lengths = phase.lengths.at(into, phase_tokens)
            if name != phase_name or not streams:
                served = served if name == phase_name else {}
                phase_name = name
                shares = normalise(phase.mixture)
                streams = []
                for source, share in shares.items():
                    key = stream_name(source, share)
                    if key not in opened:
                        opened[key] = Stream(source, share, self.sources[source], self.seed)
                        opened[key].seek(states.get(key, [0, 0, 0]))
                    streams.append(opened[key])
                queue = FairQueue([s.share for s in shares.values()], [served.get(s, 0) for s in shares])
                names = list(shares)
            # a draw depends on its place and the lengths of now alone, so a resumed run draws the same
            for stream in streams:
                stream.draw(lengths)
            batch = []
            for _ in range(self.timeline.batch_tokens // self.micro_batch_tokens):
                segments, cut = self._micro_batch(streams, queue, lengths)
                batch.append(segments)
                short += cut
            begin, clock = clock, clock + self.timeline.batch_tokens
            first, index = index, index + len(batch)
            states.update({key: stream.state for key, stream in opened.items()})
            served = dict(zip(names, queue.served, strict=True))
            after = {
                "tokens": clock,
                "micro_batch": index,
                "phase": phase_name,
                "served": served,
                "streams": dict(states),
                "short_segments": short,
            }
            yield [Plan(first + i, begin, after, segments) for i, segments in enumerate(batch)]

    def _micro_batch(
        self, streams: list[Stream], queue: FairQueue, lengths: Lengths
    ) -> tuple[list[Slice], int]:
        """The segments of one micro-batch, and how many had to be shorter than the minimum."""
        segments: list[Slice] = []
        wanted = [stream.wanted for stream in streams]
        room, short = self.micro_batch_tokens, 0
        while room:
            choice = queue.first(wanted)
            length = wanted[choice]
            if room - length < lengths.minimum:
                choice, length, forced = self._close(streams, queue, wanted, room, lengths)
                short += forced
            stream = streams[choice]
            segments += stream.take(length)
            queue.serve(choice, length)
            room -= length
            stream.draw(lengths)
            wanted[choice] = stream.wanted
        return segments, short

    @staticmethod
    def _close(
        streams: list[Stream], queue: FairQueue, wanted: list[int], room: int, lengths: Lengths
    ) -> tuple[int, int, int]:
        """The source and length of a segment near the end of a micro-batch.

        The most deserving source that can leave no unusable rest is taken, unless that would put
        it ahead of its share by more than the longest segment, or, where every other choice breaks
        the minimum, by more than two. When there is none (all documents are short), the most
        deserving source gets a segment below the minimum, which the cursor counts.
        """
        ranking = queue.ranking(wanted)
        for limit in (lengths.maximum, 2 * lengths.maximum):
            for choice in ranking:
                left = streams[choice].reach
                length = fit(wanted[choice], left, room, lengths.minimum, lengths.maximum)
                if length is not None:
                    share, served = queue.shares[choice], queue.served[choice]
                    if served + length - share * (queue.total + length) <= limit:
                        return choice, length, 0
        choice = ranking[0]
        length = min(wanted[choice], room)
        return choice, length, int(length < lengths.minimum and length < streams[choice].reach)


class PlanSampler(Sampler[Plan]):
    """The plans of one rank: it takes the micro-batches of a global batch in turn."""

    def __init__(self, planner: Planner, cursor: Mapping[str, Any], rank: int, ranks: int) -> None:
        self.planner, self.cursor, self.rank, self.ranks = planner, cursor, rank, ranks

    def __iter__(self) -> Iterator[Plan]:
        for plans in self.planner.global_batches(self.cursor):
            mine = plans[self.rank :: self.ranks]
            yield from mine[:-1]
            yield mine[-1]._replace(closes=True)
