"""Several runs with other seeds: what they have in common, how far apart they are, and which of them failed."""

import statistics
from collections.abc import Mapping
from typing import Any

__all__ = ["has_learnt", "summarize_seeds"]

_LEAST_GAIN = 0.01  # over the most frequent answer, if there is so much to gain


def has_learnt(score: float, majority: float) -> bool:
    """Whether a score is better than that of the most frequent answer, by a hundredth or a tenth of what is missing.

    >>> has_learnt(0.505, 0.5), has_learnt(0.52, 0.5), has_learnt(0.996, 0.991)
    (False, True, True)
    """
    return score > majority + min(_LEAST_GAIN, 0.1 * max(0.0, 1 - majority))


def summarize_seeds(scores: Mapping[int, float], majority: float | None) -> dict[str, Any]:
    """Median and spread of a score over seeds; a run that is no better than the most frequent answer has failed.

    >>> summary = summarize_seeds({0: 0.5, 1: 0.7, 2: 0.9}, majority=0.5)
    >>> summary["median"], summary["lowest"], summary["highest"], summary["failed"]
    (0.7, 0.5, 0.9, [0])
    """
    values = list(scores.values())
    failed = [] if majority is None else [seed for seed, value in scores.items() if not has_learnt(value, majority)]
    return {
        "seeds": {str(seed): value for seed, value in scores.items()},
        "median": statistics.median(values),
        "mean": statistics.fmean(values),
        "deviation": statistics.stdev(values) if len(values) > 1 else 0.0,
        "lowest": min(values),
        "highest": max(values),
        "failed": failed,
    }
