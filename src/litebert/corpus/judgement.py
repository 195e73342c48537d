"""Judgement: which measures of what the model is fed are good, and what to do about those that are not."""

from dataclasses import dataclass
from typing import Literal

from litebert.corpus.examples import Pairs

__all__ = ["Finding", "Measures", "judge"]

_FEW = 500

Verdict = Literal["good", "look", "bad"]


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
    words: str
    advice: str = ""


def judge(measures: Measures, pairs: Pairs) -> list[Finding]:
    """Compare measures with what ALBERT needs."""
    findings = [_masking(measures), _ngrams(measures), _shown(measures)]
    if pairs != "none":
        findings += [_balance(measures, pairs), _documents(measures, pairs), _borders(measures)]
    return [*findings, _lengths(measures), _unknown(measures), _duplicates(measures), _scripts(measures)]


def _masking(measures: Measures) -> Finding:
    rate = measures.mask_rate
    words = f"{rate:.2%} of the tokens are masked"
    if 0.12 <= rate <= 0.18:
        return Finding("mask rate", "good", words)
    if measures.num_masked < _FEW and measures.num_sequences < _FEW:
        return Finding("mask rate", "look", words, "these are too few sequences to judge: prepare more text")
    verdict: Verdict = "look" if 0.1 <= rate <= 0.4 else "bad"
    return Finding(
        "mask rate", verdict, words, "set --mask-rate 0.15: fewer teach little a step, more hide the context"
    )


def _ngrams(measures: Measures) -> Finding:
    runs = ", ".join(f"{n}: {share:.0%}" for n, share in list(measures.run_lengths.items())[:5])
    words = f"masked words in a row, {runs or 'none'}; {measures.torn_words:.2%} of them torn"
    if measures.torn_words > 0.001:
        return Finding("n-grams", "bad", words, "mask whole words: a shown half gives the other half away")
    if measures.run_lengths and not 0.35 <= measures.run_lengths.get(1, 0) <= 0.8:
        return Finding("n-grams", "look", words, "the paper masks 1 to 3 words with p(n) ∝ 1/n: see --max-ngram")
    return Finding("n-grams", "good", words)


def _shown(measures: Measures) -> Finding:
    shares = measures.shown
    words = f"[MASK] {shares['mask']:.1%}, a random piece {shares['random']:.1%}, itself {shares['same']:.1%}"
    if measures.num_masked < _FEW:
        return Finding("80/10/10", "look", words, "these are too few masked tokens to judge: prepare more text")
    allowed = max(0.02, 4 * (0.16 / measures.num_masked) ** 0.5)
    close = abs(shares["mask"] - 0.8) < allowed and abs(shares["random"] - 0.1) < allowed
    return Finding(
        "80/10/10", "good" if close else "bad", words, "" if close else "show 80 % masks, 10 % random pieces"
    )


def _balance(measures: Measures, pairs: Pairs) -> Finding:
    share = measures.num_pairs / max(1, measures.num_sequences)
    words = f"{measures.num_pairs:,} pairs ({share:.0%} of the sequences), {measures.swapped:.1%} of them labelled 1"
    if not measures.num_pairs:
        advice = f"no document has two sentences that fit: use a larger --length, or --pairs none instead of {pairs}"
        return Finding("labels", "bad", words, advice)
    allowed = max(0.02, 2 / measures.num_pairs**0.5)
    if abs(measures.swapped - 0.5) > allowed:
        return Finding("labels", "bad", words, "half of the labels must be 1: a model can answer without reading")
    if share < 0.3:
        return Finding("labels", "look", words, "few documents have two sentences: a larger --length finds more pairs")
    return Finding("labels", "good", words)


def _documents(measures: Measures, pairs: Pairs) -> Finding:
    mixed = measures.mixed_documents
    if mixed is None:
        return Finding("documents", "look", "segments are too short to tell their documents", "use a larger --length")
    words = f"{mixed:.1%} of the pairs hold segments of two documents"
    if pairs == "sop" and mixed > 0.005:
        return Finding("documents", "bad", words, "SOP must not mix documents: their topics give the label away (NSP)")
    if pairs == "nsp" and abs(mixed - 0.5) > max(0.05, 2 / max(1, measures.num_pairs) ** 0.5):
        return Finding("documents", "bad", words, "NSP takes half of the second segments from other documents")
    return Finding("documents", "good", words)


def _borders(measures: Measures) -> Finding:
    accuracy = measures.border_accuracy
    if accuracy is None:
        return Finding("borders", "look", "too few pairs to test", "examine more sequences, or prepare more text")
    words = f"lengths and borders alone tell the label in {accuracy:.1%} of the pairs (chance: 50 %)"
    noise = 1.5 / (measures.num_pairs / 2) ** 0.5
    if accuracy > max(0.52, 0.5 + noise):
        advice = (
            "segments are cut where it shows, or documents open with short titles: cut whole sentences, drop titles"
        )
        return Finding("borders", "bad", words, advice)
    return Finding("borders", "good", words)


def _lengths(measures: Measures) -> Finding:
    low, _, middle, _, high = measures.lengths
    words = f"{middle} tokens in the median (5 to 95 %: {low} to {high}), {measures.padding:.1%} padding"
    if measures.padding > 0.3:
        return Finding(
            "lengths", "look", words, "pack short sequences into rows (--packing), or use a smaller --length"
        )
    return Finding("lengths", "good", words)


def _unknown(measures: Measures) -> Finding:
    words = f"{measures.unknown_rate:.2%} of the tokens are unknown"
    advice = "the tokenizer does not know this text: train one on it"
    return _graded("unknown", measures.unknown_rate, (0.005, 0.05), words, advice)


def _duplicates(measures: Measures) -> Finding:
    words = f"{measures.duplicates:.1%} of the documents repeat an earlier one"
    return _graded("duplicates", measures.duplicates, (0.01, 0.1), words, "prepare again with --deduplicate")


def _graded(name: str, share: float, limits: tuple[float, float], words: str, advice: str) -> Finding:
    """Good up to the first limit, bad beyond the second."""
    if share <= limits[0]:
        return Finding(name, "good", words)
    return Finding(name, "bad" if share > limits[1] else "look", words, advice)


def _scripts(measures: Measures) -> Finding:
    words = ", ".join(f"{name.lower()} {share:.1%}" for name, share in measures.scripts.items()) or "no letters"
    return Finding("scripts", "good", words)
