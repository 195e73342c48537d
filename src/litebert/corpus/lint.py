"""`lint`: look at what a model will really be fed, and say what is wrong with it.

Batches are taken apart again and measured, whatever made them, so that faults of the making are found, too. Each
finding has a verdict and, where it is bad, says what to do.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from litebert.batch import NO_LABEL, Batch
from litebert.corpus.corpus import TRAIN, Corpus
from litebert.corpus.duplicates import DigestSet, digest_bytes
from litebert.corpus.examples import Pairs
from litebert.corpus.leaks import SentenceIndex, border_accuracy, border_features
from litebert.corpus.masking import PieceTable, piece_table
from litebert.corpus.shards import Shard
from litebert.corpus.stream import BatchStream, StreamConfig
from litebert.text.tokenizer import Tokenizer

__all__ = [
    "Finding",
    "Measures",
    "Report",
    "UnpackedSequence",
    "examine",
    "lint",
    "make_findings",
    "show_sequence",
    "unpack_sequences",
]

Integers = NDArray[np.int64]
Verdict = Literal["good", "look", "bad"]
_MOST_SHARDS = 8
_BATCH_SIZE = 64
_FEW = 500


@dataclass(frozen=True)
class Measures:
    """What was measured. Shares are between 0 and 1."""

    num_sequences: int
    num_pairs: int  # sequences with a question about their order
    num_masked: int
    mask_rate: float
    run_lengths: dict[int, float]  # neighbouring masked words: how long the runs are
    torn_words: float  # masked words of which a part is shown
    shown: dict[str, float]  # in place of masked tokens: mask, random, same
    swapped: float
    mixed_documents: float | None  # pairs whose segments come from two documents; None if it cannot be seen
    border_accuracy: float | None  # of a classifier that sees no words; None if there are too few pairs
    lengths: list[int]  # 5th, 25th, 50th, 75th, 95th percentile of tokens
    padding: float
    unknown_rate: float
    duplicates: float
    scripts: dict[str, float]


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    name: str
    verdict: Verdict
    message: str
    advice: str = ""


@dataclass(frozen=True)
class Report:
    """What lint found."""

    findings: list[Finding]
    measures: Measures
    examples: list[str]

    @property
    def verdict(self) -> Verdict:
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
    return examine(stream.epoch(_BATCH_SIZE), corpus, stream.config.pairs, num_sequences, few)


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
    for sequence in islice(unpack_sequences(_weighed(batches, padding), tokenizer.sep_id), num_sequences):
        counted.add(sequence)
        if (counted.num_sequences - 1) % max(1, num_sequences // 400) == 0 and len(examples) < 12:
            asked = {0: "in order", 1: "swapped" if pairs == "sop" else "from another document"}
            examples.append(f"{asked.get(sequence.label, 'no question')}: {show_sequence(sequence, tokenizer)}")
    measures = counted.measures(float(np.mean(padding)) if padding else 0.0)
    return Report(make_findings(measures, pairs), measures, examples)


def _weighed(batches: Iterable[Batch], padding: list[float]) -> Iterable[Batch]:
    for batch in batches:
        padding.append(1 - batch.num_tokens / batch.input_ids.numel())
        yield batch


@dataclass(frozen=True)
class UnpackedSequence:
    """One sequence of a batch, with its special tokens."""

    shown: Integers  # what the model sees
    original: Integers  # what stood there before masking
    masked: NDArray[np.bool_]
    first: slice  # the tokens of the first segment
    second: slice | None
    label: int


def unpack_sequences(batches: Iterable[Batch], sep_id: int) -> Iterator[UnpackedSequence]:
    """The sequences of batches, packed or not."""
    for batch in batches:
        ids = batch.input_ids.numpy()
        numbers = _sequence_numbers(batch)
        originals, masked = ids.copy(), np.zeros(ids.shape, bool)
        if batch.masked_positions is not None and batch.masked_labels is not None:
            rows, slots = np.nonzero(batch.masked_positions.numpy() >= 0)
            columns = batch.masked_positions.numpy()[rows, slots]
            originals[rows, columns] = batch.masked_labels.numpy()[rows, slots]
            masked[rows, columns] = True
        labels = None if batch.sentence_labels is None else batch.sentence_labels.numpy().reshape(len(ids), -1)
        for row, column in zip(*np.nonzero(_begins(numbers)), strict=True):
            number = int(numbers[row, column])
            end = column + int(np.argmin(np.append(numbers[row, column:] == number, False)))
            here = originals[row, column:end]
            ends = np.flatnonzero(here == sep_id)
            cut = int(ends[0]) if ends.size else here.size
            second = slice(cut + 1, int(ends[-1])) if ends.size > 1 else None
            label = NO_LABEL if labels is None or number > labels.shape[1] else int(labels[row, number - 1])
            yield UnpackedSequence(ids[row, column:end], here, masked[row, column:end], slice(1, cut), second, label)


def _begins(numbers: Integers) -> NDArray[np.bool_]:
    """Where a sequence begins: a number that is not 0, nor that of the token before."""
    before = np.pad(numbers, ((0, 0), (1, 0)))[:, :-1]
    return np.asarray((numbers > 0) & (numbers != before))


def _sequence_numbers(batch: Batch) -> Integers:
    """For each token the number of its sequence in the row, 0 for padding."""
    given = batch.sequence_ids if batch.sequence_ids is not None else batch.attention_mask
    return np.ones(batch.input_ids.shape, np.int64) if given is None else given.numpy()


def show_sequence(sequence: UnpackedSequence, tokenizer: Tokenizer) -> str:
    """A sequence for people: ⟦cat⟧ is masked, ⟦cat→dog⟧ replaced, ⟦cat=⟧ left as it was but asked about."""
    text, reserved = [], tokenizer.reserved_ids
    for shown, original, masked in zip(sequence.shown, sequence.original, sequence.masked, strict=True):
        piece = tokenizer.piece(int(original))
        if tokenizer.continues:
            space = "" if piece.startswith(tokenizer.continues) else " "
            piece = piece.removeprefix(tokenizer.continues)
        else:
            space = " " if piece.startswith("▁") or int(original) in reserved else ""
            piece = piece.removeprefix("▁") or "▁"  # a space alone is a piece, too
        if masked:
            if shown == original:
                piece = f"{piece}="
            elif shown != tokenizer.mask_id:
                piece = f"{piece}→{tokenizer.piece(int(shown)).removeprefix('▁')}"
            piece = f"⟦{piece}⟧"
        text.append(space + piece)
    return "".join(text).strip()


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

    def add(self, sequence: UnpackedSequence) -> None:
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
        ends = np.concatenate([[0], sentence_ends]).tolist()
        digests = [digest_bytes(shard.tokens[begin:end].tobytes()) for begin, end in pairwise(ends)]
        seen.add_all(np.array(digests, np.uint64))
        num_documents += len(digests)
    return 1 - len(seen) / max(1, num_documents)


def make_findings(measures: Measures, pairs: Pairs) -> list[Finding]:
    """Compare measures with what ALBERT needs."""
    findings = [_masking(measures), _ngrams(measures), _shown(measures)]
    if pairs != "none":
        findings += [_balance(measures, pairs), _documents(measures, pairs), _borders(measures)]
    return [*findings, _lengths(measures), _unknown(measures), _duplicates(measures), _scripts(measures)]


def _masking(measures: Measures) -> Finding:
    rate = measures.mask_rate
    message = f"{rate:.2%} of the tokens are masked"
    if 0.12 <= rate <= 0.18:
        return Finding("mask rate", "good", message)
    if measures.num_masked < _FEW and measures.num_sequences < _FEW:
        return Finding("mask rate", "look", message, "these are too few sequences to judge: prepare more text")
    verdict: Verdict = "look" if 0.1 <= rate <= 0.4 else "bad"
    return Finding(
        "mask rate", verdict, message, "set --mask-rate 0.15: fewer teach little a step, more hide the context"
    )


def _ngrams(measures: Measures) -> Finding:
    runs = ", ".join(f"{n}: {share:.0%}" for n, share in list(measures.run_lengths.items())[:5])
    message = f"masked words in a row, {runs or 'none'}; {measures.torn_words:.2%} of them torn"
    if measures.torn_words > 0.001:
        return Finding("n-grams", "bad", message, "mask whole words: a shown half gives the other half away")
    if measures.run_lengths and not 0.35 <= measures.run_lengths.get(1, 0) <= 0.8:
        return Finding("n-grams", "look", message, "the paper masks 1 to 3 words with p(n) ∝ 1/n: see --max-ngram")
    return Finding("n-grams", "good", message)


def _shown(measures: Measures) -> Finding:
    shares = measures.shown
    message = f"[MASK] {shares['mask']:.1%}, a random piece {shares['random']:.1%}, itself {shares['same']:.1%}"
    if measures.num_masked < _FEW:
        return Finding("80/10/10", "look", message, "these are too few masked tokens to judge: prepare more text")
    allowed = max(0.02, 4 * (0.16 / measures.num_masked) ** 0.5)
    close = abs(shares["mask"] - 0.8) < allowed and abs(shares["random"] - 0.1) < allowed
    return Finding(
        "80/10/10", "good" if close else "bad", message, "" if close else "show 80 % masks, 10 % random pieces"
    )


def _balance(measures: Measures, pairs: Pairs) -> Finding:
    share = measures.num_pairs / max(1, measures.num_sequences)
    message = f"{measures.num_pairs:,} pairs ({share:.0%} of the sequences), {measures.swapped:.1%} of them labelled 1"
    if not measures.num_pairs:
        advice = f"no document has two sentences that fit: use a larger --length, or --pairs none instead of {pairs}"
        return Finding("labels", "bad", message, advice)
    allowed = max(0.02, 2 / measures.num_pairs**0.5)
    if abs(measures.swapped - 0.5) > allowed:
        return Finding("labels", "bad", message, "half of the labels must be 1: a model can answer without reading")
    if share < 0.3:
        return Finding("labels", "look", message, "few documents have two sentences: a larger --length finds more")
    return Finding("labels", "good", message)


def _documents(measures: Measures, pairs: Pairs) -> Finding:
    mixed = measures.mixed_documents
    if mixed is None:
        return Finding("documents", "look", "segments are too short to tell their documents", "use a larger --length")
    message = f"{mixed:.1%} of the pairs hold segments of two documents"
    if pairs == "sop" and mixed > 0.005:
        return Finding(
            "documents", "bad", message, "SOP must not mix documents: topics give the label away (as in NSP)"
        )
    if pairs == "nsp" and abs(mixed - 0.5) > max(0.05, 2 / max(1, measures.num_pairs) ** 0.5):
        return Finding("documents", "bad", message, "NSP takes half of the second segments from other documents")
    return Finding("documents", "good", message)


def _borders(measures: Measures) -> Finding:
    accuracy = measures.border_accuracy
    if accuracy is None:
        return Finding("borders", "look", "too few pairs to test", "examine more sequences, or prepare more text")
    message = f"lengths and borders alone tell the label in {accuracy:.1%} of the pairs (chance: 50 %)"
    noise = 1.5 / (measures.num_pairs / 2) ** 0.5
    if accuracy > max(0.52, 0.5 + noise):
        advice = (
            "segments are cut where it shows, or documents open with short titles: cut whole sentences, drop titles"
        )
        return Finding("borders", "bad", message, advice)
    return Finding("borders", "good", message)


def _lengths(measures: Measures) -> Finding:
    low, _, middle, _, high = measures.lengths
    message = f"{middle} tokens in the median (5 to 95 %: {low} to {high}), {measures.padding:.1%} padding"
    if measures.padding > 0.3:
        return Finding(
            "lengths", "look", message, "pack short sequences into rows (--packing), or use a smaller --length"
        )
    return Finding("lengths", "good", message)


def _unknown(measures: Measures) -> Finding:
    message = f"{measures.unknown_rate:.2%} of the tokens are unknown"
    advice = "the tokenizer does not know this text: train one on it"
    return _graded("unknown", measures.unknown_rate, (0.005, 0.05), message, advice)


def _duplicates(measures: Measures) -> Finding:
    message = f"{measures.duplicates:.1%} of the documents repeat an earlier one"
    return _graded("duplicates", measures.duplicates, (0.01, 0.1), message, "prepare again with --deduplicate")


def _graded(name: str, share: float, limits: tuple[float, float], message: str, advice: str) -> Finding:
    """Good up to the first limit, bad beyond the second."""
    if share <= limits[0]:
        return Finding(name, "good", message)
    return Finding(name, "bad" if share > limits[1] else "look", message, advice)


def _scripts(measures: Measures) -> Finding:
    message = ", ".join(f"{name.lower()} {share:.1%}" for name, share in measures.scripts.items()) or "no letters"
    return Finding("scripts", "good", message)
