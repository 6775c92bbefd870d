"""Random samples of a corpus that are the same for everybody: the documents with the smallest hashes."""

import heapq
from collections.abc import Iterable

from euro_lightning.data.documents import Document, fraction


def sample_documents(documents: Iterable[Document], count: int) -> dict[str, list[Document]]:
    """At most `count` documents of each source."""
    heaps: dict[str, list[tuple[float, int, Document]]] = {}
    for number, document in enumerate(documents):
        heap = heaps.setdefault(document.source, [])
        # the number decides between equal hashes, for documents have no order
        heapq.heappush(heap, (-fraction(document.doc_id), number, document))
        if len(heap) > count:
            heapq.heappop(heap)
    return {
        source: [document for _, _, document in sorted(heaps[source], reverse=True)]
        for source in sorted(heaps)
    }


def sample_texts(documents: Iterable[Document], characters: int) -> list[str]:
    """A sample of `characters` spread evenly over the sources; see `sample_sources`."""
    return [text for texts in sample_sources(documents, characters).values() for text in texts]


def sample_sources(documents: Iterable[Document], characters: int) -> dict[str, list[str]]:
    """A sample spread evenly over the sources, so that small ones get their words too.

    Of each source the documents with the smallest hashes are taken, which is a random sample
    that is the same for everybody. A source with less than its part gives all it has, and the
    others share the rest. Holds at most `characters` per source.
    """
    heaps: dict[str, list[tuple[float, str, str]]] = {}
    sizes: dict[str, int] = {}
    for document in documents:
        source = document.source
        heap = heaps.setdefault(source, [])
        text = document.whole
        heapq.heappush(heap, (-fraction(document.doc_id), document.doc_id, text))
        sizes[source] = sizes.get(source, 0) + len(text)
        while sizes[source] - len(heap[0][2]) >= characters:
            sizes[source] -= len(heapq.heappop(heap)[2])
    order = sorted(heaps, key=lambda name: (sizes[name], name))
    texts: dict[str, list[str]] = {source: [] for source in order}
    left, waiting = characters, len(heaps)
    for source in order:
        room = left // waiting
        for _, _, text in sorted(heaps[source], reverse=True):
            if room <= 0:
                break
            texts[source].append(text[:room])
            room -= len(text)
            left -= min(len(text), room + len(text))
        waiting -= 1
    return texts
