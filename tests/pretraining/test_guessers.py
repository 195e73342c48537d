"""The guessers say what the counts say, and look at nothing that they should not see."""

import random
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from litebert.batch import NO_LABEL, Batch
from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
from litebert.corpus.masking import piece_table
from litebert.corpus.shards import Shard
from litebert.corpus.stream import BatchStream, StreamConfig
from litebert.errors import RequestError
from litebert.pretraining.guessers import GuesserMetrics, Guessers
from litebert.text.tokenizer import Tokenizer

Documents = list[list[int]]


def make_corpus(tokenizer: Tokenizer, *shards: Documents) -> Corpus:
    """A corpus of these ids, with a sentence border after every second token of a document."""
    made = []
    for number, documents in enumerate(shards):
        sentences = [len(ids[i : i + 2]) for ids in documents for i in range(0, len(ids), 2)]
        made.append(
            Shard(
                f"train-{number:05}.shard",
                np.array([token for ids in documents for token in ids], np.uint16),
                np.cumsum(sentences, dtype=np.uint32),
                np.cumsum([-(-len(ids) // 2) for ids in documents], dtype=np.uint32),
            )
        )
    return Corpus(Path("by-hand"), {}, {TRAIN: made}, tokenizer)


def ask(
    ids: list[list[int]],
    positions: list[list[int]],
    labels: list[list[int]],
    sequences: list[list[int]] | None = None,
    mask: list[list[int]] | None = None,
) -> Batch:
    """A batch of rows as long as each other, in which these labels are asked for."""
    width = max(map(len, positions))
    return Batch(
        input_ids=torch.tensor(ids),
        sequence_ids=None if sequences is None else torch.tensor(sequences),
        attention_mask=None if mask is None else torch.tensor(mask),
        masked_positions=torch.tensor([row + [-1] * (width - len(row)) for row in positions]),
        masked_labels=torch.tensor([row + [NO_LABEL] * (width - len(row)) for row in labels]),
    )


def find_guess(guessers: Guessers, row: list[int], position: int, sequences: list[int] | None = None) -> int:
    """What the n-gram guesser says: the one label with which it is right."""
    numbers = None if sequences is None else [sequences]
    right = [
        label for label in range(400) if guessers.evaluate([ask([row], [[position]], [[label]], numbers)]).ngram == 1.0
    ]
    assert len(right) == 1
    return right[0]


@pytest.fixture
def ids(small_tokenizer: Tokenizer) -> list[int]:
    """Some ordinary ids, ascending, to write texts with."""
    return [int(token) for token in piece_table(small_tokenizer).ordinary_ids[10:40]]


def test_both_neighbours_decide_and_the_rest_is_counted(small_tokenizer: Tokenizer, ids: list[int]) -> None:
    a, b, c, d, x, y, z = ids[:7]
    # Neither neighbour alone tells x, y and z apart.
    corpus = make_corpus(small_tokenizer, [[a, x, b]] * 3 + [[a, y, c]] * 3, [[d, z, b]] * 2 + [[d, x, c]] * 2)
    mask = small_tokenizer.mask_id
    rows = [[a, mask, b, mask], [a, mask, c, mask], [d, mask, b, mask], [d, mask, c, mask]]
    batch = ask(rows, [[1], [1], [1], [1]], [[x], [y], [z], [x]])
    guessers = Guessers.count(corpus)
    # a is the most frequent: 6 times.
    assert guessers.evaluate([batch]) == GuesserMetrics(4, 0.0, 1.0, 1.0)
    wrong = ask(rows, [[1], [1], [1], [1]], [[y], [y], [a], [a]])
    assert guessers.evaluate([wrong]) == GuesserMetrics(4, 0.5, 0.25, 0.25)
    assert guessers.evaluate(iter([batch, wrong, batch])) == GuesserMetrics(12, 2 / 12, 9 / 12, 9 / 12)


def test_backing_off(small_tokenizer: Tokenizer, ids: list[int]) -> None:
    a, b, c, d, e, f, x, y, z, frequent = ids[:10]
    mask = small_tokenizer.mask_id
    texts = [[a, b, x], *[[c, b, y]] * 2, *[[z, d]] * 3, *[[e, f]] * 2, [frequent] * 50]
    guessers = Guessers.count(make_corpus(small_tokenizer, texts))
    assert find_guess(guessers, [c, mask, y], 1) == b  # both sides
    assert find_guess(guessers, [a, b, mask, y], 2) == x  # two on the left, though y is more frequent after b
    assert find_guess(guessers, [e, b, mask, mask], 2) == y  # one on the left
    assert find_guess(guessers, [mask, mask, d], 1) == z  # one on the right
    assert find_guess(guessers, [e, mask, d], 1) == z  # z before d 3 times, f after e twice
    assert find_guess(guessers, [b, mask, f], 1) == min(y, e)  # both twice
    assert find_guess(guessers, [c, mask, f], 1) == min(b, e)  # both twice, the other way round
    assert find_guess(guessers, [mask, mask, mask], 1) == frequent
    assert find_guess(guessers, [d, mask, a], 1) == frequent  # nothing ever stood after d or before a


@pytest.mark.parametrize("largest_first", [True, False])
def test_of_equal_counts_the_smaller_id_wins(small_tokenizer: Tokenizer, ids: list[int], largest_first: bool) -> None:
    a, b, *others = ids[:8]
    texts = [[a, other, b] for other in sorted(others, reverse=largest_first)] * 2
    guessers = Guessers.count(make_corpus(small_tokenizer, texts))
    mask = small_tokenizer.mask_id
    assert find_guess(guessers, [a, mask, b], 1) == min(others)
    assert find_guess(guessers, [a, mask, mask], 1) == min(others)
    assert find_guess(guessers, [mask, mask, mask], 1) == min(a, b)


def test_special_tokens_are_never_said_and_never_a_context(small_tokenizer: Tokenizer, ids: list[int]) -> None:
    a, b, x, y = ids[:4]
    unknown, mask, sep = small_tokenizer.unknown_id, small_tokenizer.mask_id, small_tokenizer.sep_id
    texts = [[a, unknown, b]] * 9 + [[a, x, b]] * 2 + [[unknown, y, unknown]] * 5 + [[b, unknown, x]] * 3
    guessers = Guessers.count(make_corpus(small_tokenizer, texts))
    assert find_guess(guessers, [a, mask, b], 1) == x
    assert find_guess(guessers, [mask, mask, mask], 1) == b  # 14 times; a 11, [UNK] more
    assert guessers.evaluate([ask([[mask]], [[0]], [[b]])]).unigram == 1.0
    assert guessers.evaluate([ask([[mask]], [[0]], [[unknown]])]).unigram == 0.0
    for special in (unknown, mask, sep):  # y is what was seen beside [UNK]
        assert find_guess(guessers, [special, mask, special], 1) == b
    assert find_guess(guessers, [b, mask, mask], 1) == b  # [UNK] parts b and x


def test_the_place_itself_is_not_looked_at(small_tokenizer: Tokenizer, ids: list[int]) -> None:
    a, b, x, y = ids[:4]
    guessers = Guessers.count(make_corpus(small_tokenizer, [[a, x, b]] * 2 + [[a, y, b]]))
    for shown in (small_tokenizer.mask_id, x, y, b):
        assert find_guess(guessers, [a, shown, b], 1) == x


def test_a_word_that_is_shown_can_be_copied(small_tokenizer: Tokenizer, ids: list[int]) -> None:
    a, b, x, y = ids[:4]
    guessers = Guessers.count(make_corpus(small_tokenizer, [[a, x, b]] * 2 + [[a, y, b]]))
    rows = [[a, small_tokenizer.mask_id, b], [a, y, b], [a, x, b]]
    scores = guessers.evaluate([ask(rows, [[1], [1], [1]], [[x], [y], [y]])])
    assert (scores.ngram, scores.copying) == (1 / 3, 2 / 3)


def test_neighbours_beyond_a_border_are_not_used(small_tokenizer: Tokenizer, ids: list[int]) -> None:
    a, b, c, x, y, frequent = ids[:6]
    mask = small_tokenizer.mask_id
    guessers = Guessers.count(make_corpus(small_tokenizer, [[a, c, x], [b, c, y], [b, c, y], [frequent] * 9]))
    row = [a, c, mask, x, b]
    assert find_guess(guessers, row, 2, [1, 1, 1, 1, 1]) == x
    assert find_guess(guessers, row, 2, [1, 2, 2, 2, 2]) == y  # a is not seen
    assert find_guess(guessers, row, 2, [1, 1, 2, 2, 2]) == c  # before x
    assert find_guess(guessers, row, 2, [1, 1, 2, 3, 3]) == frequent
    assert find_guess(guessers, [mask, a, b, c], 0) == frequent  # not round the edge of the row
    assert find_guess(guessers, [c, mask, b, mask], 3) == c  # after b, and no c on the right
    unpacked = ask([[c, mask, x, y]], [[1]], [[y]], mask=[[1, 1, 0, 0]])
    assert guessers.evaluate([unpacked]).ngram == 1.0
    assert guessers.evaluate([replace(unpacked, attention_mask=torch.tensor([[0, 1, 0, 0]]))]).ngram == 0.0


def test_counting_crosses_sentences_but_not_documents(small_tokenizer: Tokenizer, ids: list[int]) -> None:
    a, b, c, d, frequent = ids[:5]
    mask = small_tokenizer.mask_id
    texts = [[a, b, c], [d, a], [frequent] * 9]
    guessers = Guessers.count(make_corpus(small_tokenizer, texts, [[b, d]]))
    assert find_guess(guessers, [a, b, mask, mask], 2) == c  # a sentence ends after b
    assert find_guess(guessers, [c, mask, mask], 1) == frequent  # a document ends after c
    assert find_guess(guessers, [b, c, mask, a], 2) == d  # as it is before a
    assert find_guess(guessers, [frequent, mask, mask], 1) == frequent  # not b: a shard ends there


def test_a_large_corpus_is_counted_in_part(small_tokenizer: Tokenizer, ids: list[int]) -> None:
    a, b, x, y, z = ids[:5]
    shards = [[[a, x]] * 10 + [[a, y]] * 90, [[b, z]] * 10 + [[b, y]] * 90]
    corpus, mask = make_corpus(small_tokenizer, *shards), small_tokenizer.mask_id
    some = Guessers.count(corpus, max_tokens=40)
    assert find_guess(some, [a, mask, mask], 1) == x
    assert find_guess(some, [b, mask, mask], 1) == z
    every = Guessers.count(corpus, max_tokens=400)
    assert find_guess(every, [a, mask, mask], 1) == find_guess(every, [b, mask, mask], 1) == y


class SlowGuesser:
    """The n-gram guesser once more, one token at a time."""

    def __init__(self, shards: list[Documents], reserved: set[int]) -> None:
        self.reserved = reserved
        self.seen: defaultdict[tuple[object, ...], Counter[int]] = defaultdict(Counter)
        for document in (document for shard in shards for document in shard):
            for token in document:
                self.count((), token)
            for left, right in pairwise(document):
                self.count(("after", left), right)
                self.count(("before", right), left)
            for left, middle, right in zip(document, document[1:], document[2:], strict=False):
                self.count(("between", left, right), middle)
                self.count(("after", left, middle), right)

    def count(self, context: tuple[object, ...], token: int) -> None:
        if not self.reserved & {token, *context}:
            self.seen[context][token] += 1

    def guess(self, row: list[int], numbers: list[int], position: int) -> int:
        def look(place: int) -> int | None:
            inside = 0 <= place < len(row) and numbers[place] == numbers[position]
            return row[place] if inside and row[place] not in self.reserved else None

        left2, left, right = look(position - 2), look(position - 1), look(position + 1)
        for tier in ([("between", left, right)], [("after", left2, left)], [("after", left), ("before", right)], [()]):
            found = [(-n, token) for context in tier for token, n in self.seen.get(context, Counter()).items()]
            if found:
                return min(found)[1]
        raise AssertionError("nothing was counted")


@pytest.mark.parametrize("seed", range(4))
def test_every_guess_is_that_of_plain_python(small_tokenizer: Tokenizer, ids: list[int], seed: int) -> None:
    generator = random.Random(seed)
    tokenizer, letters = small_tokenizer, ids[: 4 + 6 * seed]
    texts = [*letters, tokenizer.unknown_id]
    shards = [
        [generator.choices(texts, k=generator.randint(1, 9)) for _ in range(generator.randint(1, 40))] for _ in range(3)
    ]
    slow = SlowGuesser(shards, tokenizer.reserved_ids)
    shown = [*letters, tokenizer.mask_id, tokenizer.sep_id, tokenizer.pad_id]
    rows = [generator.choices(shown, k=30) for _ in range(40)]
    numbers = [[place // (7 + number % 5) + 1 for place in range(30)] for number in range(40)]
    positions = [sorted(generator.sample(range(30), generator.randint(1, 30))) for _ in rows]
    guesses = [
        [slow.guess(row, sequences, place) for place in places]
        for row, sequences, places in zip(rows, numbers, positions, strict=True)
    ]
    scores = Guessers.count(make_corpus(tokenizer, *shards)).evaluate([ask(rows, positions, guesses, numbers)])
    assert scores.num_masked == sum(map(len, positions))
    assert scores.ngram == 1.0
    assert 0 < scores.unigram < 1.0  # the guesses differ


def test_guessing_what_a_stream_holds_out(small_corpus: Corpus) -> None:
    """Packed or not, the sequences are the same, and so are the scores."""
    reserved = list(small_corpus.tokenizer.reserved_ids)
    tokens = np.concatenate([shard.tokens for shard in small_corpus.shards[TRAIN]])
    frequent = int(np.bincount(tokens[~np.isin(tokens, reserved)]).argmax())
    found = []
    for packing in (True, False):
        batches = list(BatchStream(small_corpus, StreamConfig(length=64, packing=packing), HELD_OUT).epoch(16))
        labels = torch.cat([batch.token_labels().flatten() for batch in batches])
        labels = labels[labels != NO_LABEL]
        scores = Guessers.count(small_corpus).evaluate(batches)
        assert scores.num_masked == len(labels)
        assert scores.unigram == int((labels == frequent).sum()) / len(labels)
        assert scores.ngram > scores.unigram > 0
        assert Guessers.count(small_corpus).evaluate(batches) == scores
        found.append(scores)
    assert found[0] == found[1]


def test_nothing_to_count_and_nothing_to_guess(small_tokenizer: Tokenizer, ids: list[int]) -> None:
    corpus = make_corpus(small_tokenizer, [ids[:3]])
    for empty in (make_corpus(small_tokenizer), make_corpus(small_tokenizer, [[small_tokenizer.unknown_id]])):
        with pytest.raises(RequestError, match="no text to count"):
            Guessers.count(empty)
    for max_tokens in (0, -1):
        with pytest.raises(RequestError, match="raise max_tokens"):
            Guessers.count(corpus, max_tokens=max_tokens)
    guessers = Guessers.count(corpus)
    for batches in ([], [Batch(torch.tensor([ids]))], [ask([ids], [[-1]], [[NO_LABEL]])]):
        with pytest.raises(RequestError, match="no masked word"):
            guessers.evaluate(batches)


def test_a_corpus_of_single_tokens_leaves_the_most_frequent_one(small_tokenizer: Tokenizer, ids: list[int]) -> None:
    guessers = Guessers.count(make_corpus(small_tokenizer, [[ids[0]], [ids[1]], [ids[1]]]))
    assert find_guess(guessers, [ids[0], small_tokenizer.mask_id, ids[0]], 1) == ids[1]
