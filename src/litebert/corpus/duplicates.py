"""Exact duplicates: a set of 64-bit hashes of documents in eight bytes each.

Many are looked up and added at a time: what that costs a document hardly grows with their number.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["DigestSet", "Digests", "digest_bytes", "digest_document"]

Digests = NDArray[np.uint64]

_GROWTH = 4  # how much larger than the next one a sorted array is, at least


def digest_document(text: str) -> int:
    """A hash of a document, without the white space around it.

    >>> digest_document(" a b\\n") == digest_document("a b"), digest_document("a b") == digest_document("ab")
    (True, False)
    """
    return digest_bytes(text.strip().encode("utf-8", "surrogatepass"))


def digest_bytes(content: bytes) -> int:
    """A hash of some bytes."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


class DigestSet:
    """Remembers digests, in some sorted arrays, each much larger than the next."""

    def __init__(self) -> None:
        self._sorted: list[Digests] = []

    def find(self, digests: Digests) -> NDArray[np.bool_]:
        """Say which of them are there."""
        order = np.argsort(digests)  # neighbours are found near one another
        wanted = digests[order]
        found = np.zeros(digests.size, np.bool_)
        for known in self._sorted:
            found |= known[np.minimum(np.searchsorted(known, wanted), known.size - 1)] == wanted
        result = np.empty_like(found)
        result[order] = found
        return result

    def add_all(self, digests: Digests) -> NDArray[np.bool_]:
        """Add digests; which of them are new, the first one of those that are equal."""
        values, first = np.unique(digests, return_index=True)
        fresh = ~self.find(values)
        is_new = np.zeros(digests.size, np.bool_)
        is_new[first[fresh]] = True
        self._insert(values[fresh])
        return is_new

    def _insert(self, values: Digests) -> None:
        while self._sorted and self._sorted[-1].size < _GROWTH * values.size:
            values = np.sort(np.concatenate([self._sorted.pop(), values]), kind="stable")  # it merges what is sorted
        if values.size:
            self._sorted.append(values)

    def __len__(self) -> int:
        return sum(values.size for values in self._sorted)
