"""Exact duplicates: a set of 64-bit hashes of documents in eight bytes each."""

import hashlib

import numpy as np

__all__ = ["DigestSet", "digest_document"]

_RECENT = 1 << 16


def digest_document(text: str) -> int:
    """A hash of a document, without the white space around it.

    >>> digest_document(" a b\\n") == digest_document("a b"), digest_document("a b") == digest_document("ab")
    (True, False)
    """
    return _digest(text.strip().encode("utf-8", "surrogatepass"))


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


class DigestSet:
    """Remembers digests: recent ones in a set, the others in one sorted array."""

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted = np.zeros(0, np.uint64)

    def add(self, digest: int) -> bool:
        """Add a digest; whether it is new."""
        if digest in self._recent:
            return False
        index = int(np.searchsorted(self._sorted, np.uint64(digest)))
        if index < self._sorted.size and int(self._sorted[index]) == digest:
            return False
        self._recent.add(digest)
        # Merging costs what is there already: the more that is, the more is gathered first.
        if len(self._recent) >= max(_RECENT, min(self._sorted.size // 8, 16 * _RECENT)):
            recent = np.sort(np.fromiter(self._recent, np.uint64, len(self._recent)))
            self._sorted = np.sort(np.concatenate([self._sorted, recent]), kind="stable")
            self._recent.clear()
        return True

    def add_bytes(self, content: bytes) -> bool:
        """Add the digest of some bytes; whether it is new."""
        return self.add(_digest(content))

    def __len__(self) -> int:
        return len(self._recent) + self._sorted.size
