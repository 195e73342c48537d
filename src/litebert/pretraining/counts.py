"""Word vectors by counting: which words stand near which, more often than chance would have it.

Positive pointwise mutual information within a few tokens, cut down by a singular value decomposition (Levy and Goldberg
2014): in a minute it knows of words what an encoder takes hours to find out. A head start puts it into the word table.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse  # type: ignore[import-untyped]
from torch import Tensor

from litebert.corpus.corpus import TRAIN, Corpus

__all__ = ["count_neighbours", "count_vectors", "make_vectors"]

_WINDOW = 5
_SMOOTHING = 0.75  # of the frequencies of neighbours: rare ones are less of a surprise
_AT_ONCE = 1_000_000  # tokens
_LEAST = 2  # times that two words must have met
_ROUNDS, _SPARE = 3, 10  # of the decomposition, and directions that make the others exact
_SHORTEST = 1e-6


def count_vectors(corpus: Corpus, size: int, num_tokens: int, seed: int = 0) -> Tensor:
    """(ids, size): a vector of length 1 for each id of which the first tokens of a corpus tell enough, else 0."""
    counts = sparse.csr_matrix((corpus.tokenizer.vocab_size,) * 2, dtype=np.float32)
    left = num_tokens
    for shard in corpus.shards[TRAIN]:
        for begin in range(0, min(left, shard.tokens.size), _AT_ONCE):
            counts = counts + count_neighbours(shard.tokens[begin : begin + min(_AT_ONCE, left)], counts.shape[0])
        left -= shard.tokens.size
        if left <= 0:
            break
    return make_vectors(counts, size, seed)


def count_neighbours(tokens: NDArray[np.integer], num_ids: int) -> sparse.csr_matrix:
    """(ids, ids): how often two ids stand within five tokens of each other, on either side.

    >>> count_neighbours(np.array([0, 1, 2]), 3).toarray().tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    ids = np.asarray(tokens, np.int64)
    parts = [(ids[:-distance], ids[distance:]) for distance in range(1, min(_WINDOW, len(ids) - 1) + 1)]
    if not parts:
        return sparse.csr_matrix((num_ids, num_ids), dtype=np.float32)
    first, second = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    pairs, counts = np.unique(first * num_ids + second, return_counts=True)
    shape = (num_ids, num_ids)
    found = sparse.csr_matrix((counts.astype(np.float32), (pairs // num_ids, pairs % num_ids)), shape)
    return found + found.T


def make_vectors(counts: sparse.csr_matrix, size: int, seed: int = 0) -> Tensor:
    """Vectors of length 1 from symmetric counts; 0 for ids that met nobody more often than chance."""
    table = counts.tocoo()
    often = table.data >= _LEAST
    rows, columns, met = table.row[often], table.col[often], table.data[often].astype(np.float64)
    totals = np.bincount(rows, met, counts.shape[0])
    smoothed = totals**_SMOOTHING
    chance = totals[rows] * (smoothed / max(smoothed.sum(), 1e-9))[columns]
    surprise = np.log(met / chance)
    kept = surprise > 0
    if not kept.any():
        return torch.zeros(counts.shape[0], size)
    places = torch.from_numpy(np.stack([rows[kept], columns[kept]]).astype(np.int64))
    numbers = torch.from_numpy(surprise[kept]).float()
    matrix = torch.sparse_coo_tensor(places, numbers, counts.shape, check_invariants=True).coalesce()
    found = min(size, counts.shape[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        left, values, _ = torch.svd_lowrank(matrix, min(found + _SPARE, counts.shape[0]), niter=_ROUNDS)
    vectors = torch.zeros(counts.shape[0], size)
    vectors[:, :found] = left[:, :found] * values[:found].sqrt()
    lengths = vectors.norm(dim=1, keepdim=True)
    return torch.where(lengths > _SHORTEST, vectors / lengths.clamp(min=_SHORTEST), 0.0)
