"""Replacement: some tokens give way to others that stood beside the same neighbour elsewhere in the training text.

ELECTRA (Clark et al., 2020) trains a second model to make such replacements; counting makes plausible ones, too. A
share of the tokens that are neither masked nor special is replaced, half of the time by one that followed the same left
neighbour, half of the time by one that preceded the same right neighbour. Where one side has no neighbour that the
sample knows, the other one is asked; where neither has, the token stays.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from litebert.batch import NO_LABEL
from litebert.corpus.corpus import TRAIN, Corpus
from litebert.corpus.randomness import draw, uniform
from litebert.corpus.shards import Shard

__all__ = ["SAMPLED_TOKENS", "Replacements"]

Integers = NDArray[np.int64]
SAMPLED_TOKENS = 6_000_000
"""Tokens in which neighbours are looked up: the first ones of all shards."""


@dataclass(frozen=True)
class Replacements:
    """Which tokens stood beside which, and how many shall be replaced."""

    rate: float
    is_ordinary: NDArray[np.bool_]  # (ids,): neither special nor unused
    tokens: NDArray[Any]  # those that followed each id, id by id; then those that preceded each id
    offsets: Integers  # (2, ids + 1): where those that followed an id begin, and those that preceded it

    @classmethod
    def count(cls, corpus: Corpus, rate: float, num_tokens: int = SAMPLED_TOKENS) -> "Replacements":
        """Look up the neighbours of all tokens in a sample of the training text."""
        tokenizer, shards = corpus.tokenizer, corpus.shards[TRAIN]
        is_ordinary = np.ones(tokenizer.vocab_size, np.bool_)
        is_ordinary[sorted(tokenizer.reserved_ids)] = False
        none = np.zeros(0, np.uint16)
        pairs = [(none, none), *(_pair_up(shard, num_tokens // len(shards), is_ordinary) for shard in shards)]
        left, right = (np.concatenate(side) for side in zip(*pairs, strict=True))
        tokens = [right[np.argsort(left, kind="stable")], left[np.argsort(right, kind="stable")]]
        counts = [np.bincount(side, minlength=tokenizer.vocab_size) for side in (left, right)]
        ends = np.cumsum(np.concatenate(counts)).reshape(2, -1)
        return cls(rate, is_ordinary, np.concatenate(tokens), np.insert(ends, 0, [0, left.size], axis=1))

    def replace_tokens(
        self,
        tokens: Integers,  # of all segments, one after the other
        segment_lengths: Integers,
        segment_examples: Integers,  # which example each segment belongs to, from 0, ascending
        keys: NDArray[np.uint64],  # one for each example
        masked: Integers,  # positions that are masked: neither replaced nor asked about
    ) -> tuple[Integers, Integers]:
        """The tokens, some of them replaced; and of each 1 if it was, 0 if not, NO_LABEL where nothing is asked.

        What was drawn may be the token that stood there, which then counts as not replaced.
        """
        is_asked = self.is_ordinary[tokens]
        is_asked[masked] = False
        examples = np.repeat(segment_examples, segment_lengths)
        begins = np.searchsorted(examples, np.arange(keys.size))
        bits = draw(keys[examples], np.arange(tokens.size) - begins[examples])
        chosen = np.flatnonzero(is_asked & (uniform(bits) < self.rate))
        found, known = self._draw_beside(tokens, segment_lengths, chosen, bits[chosen])
        shown = tokens.copy()
        shown[chosen[known]] = found
        return shown, np.where(is_asked, shown != tokens, NO_LABEL)

    def _draw_beside(
        self, tokens: Integers, segment_lengths: Integers, chosen: Integers, bits: NDArray[np.uint64]
    ) -> tuple[NDArray[Any], Integers]:
        """Tokens that stood beside the neighbours of those at `chosen`, and for which of these any did."""
        ends = np.cumsum(segment_lengths)
        segments = np.searchsorted(ends, chosen, side="right")
        has_neighbour = np.stack([chosen > (ends - segment_lengths)[segments], chosen + 1 < ends[segments]])
        neighbours = np.stack([tokens[chosen - 1], tokens[(chosen + 1) % max(tokens.size, 1)]])
        sides = np.arange(2)[:, None]
        begins = self.offsets[sides, neighbours]
        counts = np.where(has_neighbour, self.offsets[sides, neighbours + 1] - begins, 0)
        side = (draw(bits, 1) >> np.uint64(63)).astype(np.int64)
        index = np.arange(chosen.size)
        side = np.where(counts[side, index] > 0, side, 1 - side)
        known = np.flatnonzero(counts[side, index])
        side = side[known]
        number = draw(bits[known], 2) % counts[side, known].astype(np.uint64)
        return self.tokens[begins[side, known] + number.astype(np.int64)], known


def _pair_up(shard: Shard, num_tokens: int, is_ordinary: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The ordinary tokens among the first of a shard that stand beside each other in a document: left and right."""
    tokens = np.asarray(shard.tokens[:num_tokens])
    left, right = tokens[:-1], tokens[1:]
    are_beside = is_ordinary[left] & is_ordinary[right]
    ends = shard.sentence_ends[shard.document_ends.astype(np.int64) - 1].astype(np.int64)  # of documents, in tokens
    are_beside[ends[ends < tokens.size] - 1] = False
    return left[are_beside], right[are_beside]
