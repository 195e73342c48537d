"""`lint`: look at what a model will really be fed, and say what is wrong with it.

Batches are taken apart again and measured; each finding has a verdict and, where it is bad, says what to do.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Literal

import numpy as np

from litebert.batch import NO_LABEL, Batch
from litebert.corpus import judgement
from litebert.corpus.borders import SentenceIndex, border_accuracy, border_features
from litebert.corpus.corpus import TRAIN, Corpus
from litebert.corpus.duplicates import DigestSet
from litebert.corpus.examples import Pairs
from litebert.corpus.judgement import Finding, Measures
from litebert.corpus.shards import Shard
from litebert.corpus.stream import BatchStream, StreamConfig
from litebert.corpus.unfolding import Sequence, show_sequence, unfold
from litebert.corpus.words import PieceTable, piece_table

__all__ = ["Report", "examine", "lint"]

_MOST_SHARDS = 8
_ROWS_AT_ONCE = 64


@dataclass(frozen=True)
class Report:
    """What lint found."""

    findings: list[Finding]
    measures: Measures
    examples: list[str]

    @property
    def verdict(self) -> Literal["good", "look", "bad"]:
        """The worst of the findings."""
        verdicts = {finding.verdict for finding in self.findings}
        return "bad" if "bad" in verdicts else "look" if "look" in verdicts else "good"

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {"verdict": self.verdict, **asdict(self)}


def lint(corpus: Corpus, config: StreamConfig | None = None, num_sequences: int = 20_000) -> Report:
    """Examine the first batches of a corpus; of a large one, those of its first shards."""
    few = [shard for shard in corpus.shards[TRAIN] if shard.tokens.size][:_MOST_SHARDS]
    stream = BatchStream(replace(corpus, shards={TRAIN: few}), config)
    return examine(stream.epoch(_ROWS_AT_ONCE), corpus, stream.config.pairs, num_sequences, few)


def examine(
    batches: Iterable[Batch],
    corpus: Corpus,
    pairs: Pairs,
    num_sequences: int = 20_000,
    shards: list[Shard] | None = None,
) -> Report:
    """Measure batches, wherever they come from, that were made of a corpus or of some of its shards."""
    tokenizer = corpus.tokenizer
    index = SentenceIndex.build(corpus.shards[TRAIN] if shards is None else shards)
    counted = _Counts(piece_table(tokenizer), corpus, index)
    padding: list[float] = []
    examples: list[str] = []
    for sequence in islice(unfold(_weighed(batches, padding), tokenizer.sep_id), num_sequences):
        counted.add(sequence)
        if (counted.num_sequences - 1) % max(1, num_sequences // 400) == 0 and len(examples) < 12:
            asked = {0: "in order", 1: "swapped" if pairs == "sop" else "from another document"}
            examples.append(f"{asked.get(sequence.label, 'no question')}: {show_sequence(sequence, tokenizer)}")
    measures = counted.measures(float(np.mean(padding)) if padding else 0.0)
    return Report(judgement.judge(measures, pairs), measures, examples)


def _weighed(batches: Iterable[Batch], padding: list[float]) -> Iterable[Batch]:
    for batch in batches:
        padding.append(1 - batch.num_tokens / batch.input_ids.numel())
        yield batch


class _Counts:
    """What is counted while sequences go by."""

    def __init__(self, table: PieceTable, corpus: Corpus, index: SentenceIndex) -> None:
        self._table = table
        self._corpus = corpus
        self._index = index
        self._lengths: list[int] = []
        self._pairs: list[tuple[Any, Any]] = []
        self._labels: list[int] = []
        self._runs: Counter[int] = Counter()
        self._shown: Counter[str] = Counter()
        self._num_tokens = self._num_masked = self._num_unknown = self._num_torn = 0

    @property
    def num_sequences(self) -> int:
        """Sequences so far."""
        return len(self._lengths)

    def add(self, sequence: Sequence) -> None:
        """Count one sequence."""
        self._lengths.append(sequence.original.size)
        for segment in filter(None, (sequence.first, sequence.second)):
            tokens, masked = sequence.original[segment], sequence.masked[segment]
            self._num_tokens += tokens.size
            self._num_masked += int(masked.sum())
            self._num_unknown += int((tokens == self._corpus.tokenizer.unknown_id).sum())
            if tokens.size:
                self._count_words(tokens, masked)
                self._count_shown(tokens[masked], sequence.shown[segment][masked])
        if sequence.second is None or sequence.label == NO_LABEL:
            return
        self._labels.append(sequence.label)
        self._pairs.append((sequence.original[sequence.first], sequence.original[sequence.second]))

    def _count_words(self, tokens: Any, masked: Any) -> None:
        starts = self._table.find_starts(tokens)
        sizes = np.diff(np.append(np.flatnonzero(starts), tokens.size))
        hidden = np.add.reduceat(masked.astype(np.int64), np.flatnonzero(starts))
        self._num_torn += int(((hidden > 0) & (hidden < sizes)).sum())
        edges = np.flatnonzero(np.diff(np.concatenate([[0], hidden > 0, [0]])))
        self._runs.update((edges[1::2] - edges[::2]).tolist())

    def _count_shown(self, original: Any, shown: Any) -> None:
        is_mask = shown == self._corpus.tokenizer.mask_id
        self._shown["mask"] += int(is_mask.sum())
        self._shown["same"] += int((~is_mask & (shown == original)).sum())
        self._shown["random"] += int((~is_mask & (shown != original)).sum())

    def measures(self, padding: float) -> Measures:
        """Counts as shares."""
        labels, runs = np.array(self._labels), max(1, self._runs.total())
        shown = max(1, self._shown.total())
        firsts, seconds = [list(segments) for segments in zip(*self._pairs, strict=True)] or ([], [])
        documents = [self._index.find_documents(segments) for segments in (firsts, seconds)]
        known = (documents[0] >= 0) & (documents[1] >= 0)
        accuracy = None
        if labels.size >= 200:
            accuracy = border_accuracy(border_features(firsts, seconds, self._index), labels)
        scripts = Counter(self._corpus.scripts)
        return Measures(
            num_sequences=self.num_sequences,
            num_pairs=labels.size,
            num_masked=self._num_masked,
            mask_rate=self._num_masked / max(1, self._num_tokens),
            run_lengths={n: self._runs[n] / runs for n in sorted(self._runs)[:8]},
            torn_words=self._num_torn / runs,
            shown={name: self._shown[name] / shown for name in ("mask", "random", "same")},
            swapped=float((labels == 1).mean()) if labels.size else 0.0,
            mixed_documents=float((documents[0] != documents[1])[known].mean()) if known.any() else None,
            border_accuracy=accuracy,
            lengths=[int(q) for q in np.quantile(self._lengths or [0], (0.05, 0.25, 0.5, 0.75, 0.95))],
            padding=padding,
            unknown_rate=self._num_unknown / max(1, self._num_tokens),
            duplicates=_duplicate_share(self._corpus),
            scripts={name: count / max(1, scripts.total()) for name, count in scripts.most_common(6)},
        )


def _duplicate_share(corpus: Corpus) -> float:
    """The share of the documents whose ids are exactly those of an earlier one."""
    seen, num_documents = DigestSet(), 0
    for shard in corpus.shards[TRAIN]:
        sentence_ends = shard.sentence_ends[shard.document_ends.astype(np.int64) - 1]
        for begin, end in zip(np.concatenate([[0], sentence_ends[:-1]]), sentence_ends, strict=True):
            seen.add_bytes(shard.tokens[int(begin) : int(end)].tobytes())
            num_documents += 1
    return 1 - len(seen) / max(1, num_documents)
