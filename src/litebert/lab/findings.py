"""Verdicts: whether what the paper found shows here, paired over seeds and with an interval.

A finding is a sum of cells with weights. It is worked out for each seed, for which all cells had the same text in the
same order and were scored on the same tokens, so that what a seed does to all of them cancels out. The interval is
Student's, of 95 %.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from litebert.lab.experiment import Experiment, Finding

__all__ = ["Verdict", "judge", "judge_exact"]

Outcome = Literal["holds", "does not hold", "open"]
Values = Mapping[str, Mapping[int, float]]
"""Of a metric: by cell and seed."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Verdict:
    """What became of a finding."""

    claim: str
    metric: str
    outcome: Outcome
    seeds: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


def judge(finding: Finding, values: Values) -> Verdict:
    """Hold a finding against the numbers of its cells."""
    seeds = sorted(set.intersection(*({*values.get(cell, {})} for cell in finding.contrast)))
    if not seeds:
        return Verdict(finding.claim, finding.metric, "open", 0, reason="not all of its cells are done")
    sums = [
        sum(weight * values[cell][seed] for cell, weight in finding.contrast.items()) - finding.minus for seed in seeds
    ]
    mean = statistics.mean(sums)
    if len(sums) < 2:
        return Verdict(finding.claim, finding.metric, "open", 1, mean, reason="one seed allows no claim")
    reach = _student(len(sums)) * statistics.stdev(sums) / math.sqrt(len(sums))
    low, high = mean - reach, mean + reach
    outcome = _decide(finding, low, high)
    reason = "the spread over seeds does not allow the claim" if outcome == "open" else ""
    return Verdict(finding.claim, finding.metric, outcome, len(sums), mean, low, high, reason)


def _decide(finding: Finding, low: float, high: float) -> Outcome:
    """By an interval that lies wholly on one side of the border, or across it.

    >>> finding = Finding(claim="a is better", metric="accuracy", contrast={"a": 1.0, "b": -1.0}, above=0.0)
    >>> [_decide(finding, *interval) for interval in ((0.01, 0.02), (-0.02, -0.01), (-0.01, 0.01))]
    ['holds', 'does not hold', 'open']
    """
    if finding.above is not None:
        if low > finding.above:
            return "holds"
        return "does not hold" if high < finding.above else "open"
    assert finding.within is not None
    if -finding.within < low and high < finding.within:
        return "holds"
    return "does not hold" if low >= finding.within or high <= -finding.within else "open"


def _student(count: int) -> float:
    """How many standard errors of a mean of so many numbers the interval reaches to each side."""
    from scipy.stats import t  # type: ignore[import-untyped]

    return float(t.ppf((1 + _CONFIDENCE) / 2, count - 1))


def judge_exact(finding: Finding, experiment: Experiment, values: Mapping[str, float]) -> Verdict:
    """Hold what is known of the cells against what the paper prints."""
    title = next(column.title for column in experiment.columns if column.metric == finding.metric)
    differences = {}
    for cell in experiment.all_cells():
        if (printed := cell.paper.get(title)) is not None:
            wanted = 1e6 * float(printed.rstrip("M")) if isinstance(printed, str) else printed
            differences[cell.name] = values[cell.name] / wanted - 1
    name, largest = max(differences.items(), key=lambda entry: abs(entry[1]))
    outcome: Outcome = "holds" if abs(largest) <= (finding.within or 0.0) else "does not hold"
    reason = f"the largest difference is {largest:+.1%}, of {name}" if largest else "no difference"
    return Verdict(finding.claim, finding.metric, outcome, 0, reason=reason)
