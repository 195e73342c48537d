"""Rows of two texts made of single ones: what they are like, whatever the texts."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from litebert.batch import Batch
from litebert.distillation.pairs import pair_up

CLS, SEP, PAD = 2, 3, 0
TEXTS = st.lists(st.lists(st.integers(10, 60), min_size=1, max_size=20), min_size=1, max_size=12)


def pack(texts: list[list[int]]) -> Batch:
    """One text a row, as the stream gives them."""
    width = max(map(len, texts)) + 2
    ids = torch.tensor([[CLS, *text, SEP] + [PAD] * (width - len(text) - 2) for text in texts])
    return Batch(ids, sequence_ids=(ids != PAD).long(), sequence_starts=torch.zeros(len(texts), 1, dtype=torch.long))


def unpack(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """The tokens and the token types of each sequence, special tokens too."""
    assert batch.sequence_ids is not None
    assert batch.token_type_ids is not None
    found = []
    for ids, numbers, types in zip(batch.input_ids, batch.sequence_ids, batch.token_type_ids, strict=True):
        for number in range(1, int(numbers.max()) + 1):
            found.append((ids[numbers == number].tolist(), types[numbers == number].tolist()))
    return found


@given(TEXTS, st.integers(16, 40), st.integers(0, 1000))
def test_rows_of_pairs(texts: list[list[int]], length: int, seed: int) -> None:
    batch = pair_up(pack(texts), CLS, SEP, PAD, length, torch.Generator().manual_seed(seed))
    assert batch.input_ids.shape[1] <= length
    assert batch.sequence_ids is not None
    assert batch.sequence_starts is not None
    sequences = unpack(batch)
    assert sequences
    assert len(sequences) <= len(texts)
    for ids, types in sequences:
        assert (ids[0], ids[-1], ids.count(SEP)) == (CLS, SEP, 2)
        first, second = ids[1 : ids.index(SEP)], ids[ids.index(SEP) + 1 : -1]
        assert first
        assert second
        assert types == [0] * (len(first) + 2) + [1] * (len(second) + 1)
        assert {*first, *second} <= {token for text in texts for token in text}
        assert any(first == text[: len(first)] for text in texts)
    begin = batch.input_ids.gather(1, batch.sequence_starts.clamp(min=0))
    assert bool((begin[batch.sequence_starts >= 0] == CLS).all())
    assert int((batch.sequence_starts >= 0).sum()) == len(sequences)
    assert bool((batch.input_ids[batch.sequence_ids == 0] == PAD).all())


def test_pairs_are_the_same_for_the_same_seed_and_of_all_kinds() -> None:
    texts = [[*range(10 * number, 10 * number + 10)] for number in range(1, 60)]
    one, two = (pair_up(pack(texts), CLS, SEP, PAD, 64, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(one.input_ids, two.input_ids)
    kinds = {"itself": 0, "its rest": 0, "another": 0}
    for ids, _ in unpack(one):
        first, second = ids[1 : ids.index(SEP)], ids[ids.index(SEP) + 1 : -1]
        same = {token // 10 for token in first} & {token // 10 for token in second}
        kinds["another" if not same else "itself" if len(first) == 10 else "its rest"] += 1
    assert all(count >= 3 for count in kinds.values()), kinds
