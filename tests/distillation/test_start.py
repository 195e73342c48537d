"""How a student begins: with all of its teacher that fits, and with the rest as it was drawn."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.distillation.prune import prune
from litebert.distillation.start import (
    begin_from_teacher,
    choose_layers,
    copy_layers,
    factorize_embeddings,
    translate_words,
)
from litebert.model.model import Model
from litebert.model.sharing import spread
from litebert.text.tokenizer import Tokenizer
from tests.conftest import make_sentences, small_inputs
from tests.distillation.runs import BERT, make_model

SAMPLE = torch.randint(5, 400, (64, 32), generator=torch.Generator().manual_seed(0))
SPECIAL = ("cls_id", "sep_id", "mask_id", "pad_id", "unknown_id")


def states(model: Model) -> Tensor:
    with torch.inference_mode():
        return model(**small_inputs(model.config)).last_hidden_state  # type: ignore[no-any-return]


def differing(model: nn.Module, before: dict[str, Tensor]) -> set[str]:
    """The names of the tensors that have changed."""
    return {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}


def remember(model: nn.Module) -> dict[str, Tensor]:
    return copy.deepcopy(model.state_dict())


# --- the whole of it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [{}, BERT, {"sharing": "groups", "num_groups": 2}])
def test_a_student_of_the_same_shape_begins_as_its_teacher(shape: dict[str, Any]) -> None:
    teacher, student = make_model(seed=1, **shape), make_model(seed=2, **shape)
    kept = remember(teacher)
    begin_from_teacher(student, teacher, SAMPLE)
    assert torch.equal(states(student), states(teacher))
    assert not differing(student, kept)  # the pooler too
    assert not differing(teacher, kept)


def test_an_albert_of_a_bert_takes_embeddings_a_layer_and_the_pooler() -> None:
    teacher, student = make_model(seed=1, **BERT), make_model(seed=2)
    before = remember(student)
    begin_from_teacher(student, teacher, SAMPLE)
    assert differing(student, before) == {*before}
    assert torch.equal(student.encoder.pooler.weight, teacher.encoder.pooler.weight)  # type: ignore[union-attr]
    assert not differing(student.encoder.attention[0], teacher.encoder.attention[3].state_dict())
    assert relative_error(embed_sample(student), embed_sample(teacher)) < 0.75


def test_another_width_leaves_all_as_it_was_drawn() -> None:
    teacher, student = make_model(seed=1, **BERT), make_model(seed=2, hidden_size=36)
    before = remember(student)
    begin_from_teacher(student, teacher, SAMPLE)
    assert not differing(student, before)


def test_a_student_with_fewer_units_and_heads_begins_with_those_that_matter_most() -> None:
    teacher = make_model(seed=1, **BERT).eval()
    size = teacher.config.hidden_size // teacher.config.num_heads
    narrow = {"intermediate_size": 10, "num_heads": 1, "head_size": size}
    student = make_model(seed=2, **BERT, **narrow)
    kept = remember(teacher)
    begin_from_teacher(student, teacher, SAMPLE)
    shares = 10 / teacher.config.intermediate_size, 1 / teacher.config.num_heads
    pruned = prune(teacher, [Batch(SAMPLE, attention_mask=(SAMPLE != 0).long())], *shares)
    for name in ("attention", "feed_forward"):
        for block, wanted in zip(getattr(student.encoder, name), getattr(pruned.encoder, name), strict=True):
            assert not differing(block, wanted.state_dict())
    assert not differing(teacher, kept)


def test_a_narrow_student_with_words_of_its_own_begins_with_the_teachers_units_too() -> None:
    teacher, student = make_model(seed=1, **BERT), make_model(seed=2, intermediate_size=10)
    before, kept = remember(student), remember(teacher)
    begin_from_teacher(student, teacher, SAMPLE, teacher.encoder.embeddings.words.weight.flip(0))
    assert differing(student, before) == {*before}
    assert not differing(teacher, kept)


def test_more_units_than_the_teacher_has_leave_those_blocks_as_they_were_drawn() -> None:
    teacher, student = make_model(seed=1, **BERT), make_model(seed=2, intermediate_size=50)
    before = remember(student)
    begin_from_teacher(student, teacher, SAMPLE)
    kept = {name for name in before if ".feed_forward." in name}
    assert differing(student, before) == {*before} - kept


def test_a_table_of_another_length_is_cut_or_filled_up() -> None:
    """Tables may be longer than the vocabulary; nobody reads the rows beyond it."""
    for teacher_rows, student_rows in ((448, 400), (400, 448)):
        teacher, student = make_model(seed=1, vocab_size=teacher_rows), make_model(seed=2, vocab_size=student_rows)
        begin_from_teacher(student, teacher, SAMPLE)
        ids = small_inputs(make_model().config)
        with torch.inference_mode():
            assert torch.equal(student(**ids).last_hidden_state, teacher(**ids).last_hidden_state)
        smaller = make_model(seed=3, vocab_size=student_rows, embedding_size=8)
        begin_from_teacher(smaller, teacher, SAMPLE)
        drawn = make_model(seed=3, vocab_size=student_rows, embedding_size=8)
        errors = [relative_error(embed_sample(model), embed_sample(teacher)) for model in (smaller, drawn)]
        assert errors[0] < 0.8 * errors[1]


# --- embeddings -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def embed_sample(model: Model) -> Tensor:
    return model.encoder.embeddings(SAMPLE, None, None)  # type: ignore[no-any-return]


def relative_error(given: Tensor, wanted: Tensor) -> float:
    """The share of the variance that is missed."""
    return float((given - wanted).square().sum() / (wanted - wanted.mean((0, 1))).square().sum())


def factorize(teacher: Model, size: int, **changes: Any) -> tuple[float, float]:
    """How far the embeddings of a student are from its teacher's: factorized, and as they were drawn."""
    student = make_model(seed=2, embedding_size=size, **changes)
    old, new = teacher.encoder.embeddings, student.encoder.embeddings
    drawn = relative_error(embed_sample(student), embed_sample(teacher))
    factorize_embeddings(new, old, old.words.weight, SAMPLE)
    return relative_error(embed_sample(student), embed_sample(teacher)), drawn


def teacher_with_common_directions() -> Model:
    """A BERT whose words, like real ones, differ more in some directions than in others."""
    teacher = make_model(seed=1, **BERT)
    turn = torch.linalg.qr(torch.randn(24, 24, generator=torch.Generator().manual_seed(3)))[0]
    with torch.no_grad():
        words = teacher.encoder.embeddings.words.weight
        words.copy_(words / words.std() @ turn @ torch.diag(0.8 ** torch.arange(24.0)) @ turn.T)
    return teacher


def test_a_table_of_full_rank_gives_nearly_the_same() -> None:
    full, drawn = factorize(teacher_with_common_directions(), 24, project_square_embeddings=True)
    assert full < 0.05
    assert drawn > 1


def test_the_larger_the_table_the_nearer_to_the_teacher() -> None:
    teacher = teacher_with_common_directions()
    errors = [factorize(teacher, size) for size in (2, 4, 8, 16)]
    found = [factorized for factorized, _ in errors]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 0.15
    assert all(factorized < 0.8 * drawn for factorized, drawn in errors)


def test_a_table_larger_than_its_vocabulary_can_fill_is_filled_up_with_zeros() -> None:
    teacher = make_model(seed=1, vocab_size=10, **BERT)
    student = make_model(seed=2, vocab_size=10)
    old, new = teacher.encoder.embeddings, student.encoder.embeddings
    factorize_embeddings(new, old, old.words.weight, SAMPLE % 10)
    assert not new.words.weight[:, 10:].any()
    assert new(SAMPLE % 10, None, None).isfinite().all()


# --- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [{}, {"sharing": "none", "num_layers": 2}, {"sharing": "none"}, {"sharing": "attention"}, {"sharing": "ffn"}],
)
def test_blocks_are_copied_from_layers_spread_over_the_teacher(shape: dict[str, Any]) -> None:
    teacher, student = make_model(seed=1, **BERT, num_layers=6).encoder, make_model(seed=2, **shape).encoder
    copy_layers(student, teacher)
    for old, new in ((teacher.attention, student.attention), (teacher.feed_forward, student.feed_forward)):
        taken = choose_layers(student.config, len(new), 6)
        assert taken == sorted(set(taken))
        for block, number in zip(new, taken, strict=True):
            assert not differing(block, old[number].state_dict())


def test_the_first_block_takes_the_first_layer_and_the_last_the_last() -> None:
    for count in range(2, 9):
        assert [*spread(count, 9)][:: count - 1] == [0, 8]
    assert spread(1, 9) == [8]  # what one block says is what the teacher says


def test_as_many_blocks_as_layers_take_one_each() -> None:
    for count in (1, 2, 7, 12):
        assert spread(count, count) == [*range(count)]
    assert spread(3, 2)[2] == 1  # more blocks than layers


@pytest.mark.parametrize(("blocks", "groups"), [(1, [[0, 1, 2, 3]]), (2, [[0, 1], [2, 3]]), (4, [[0], [1], [2], [3]])])
def test_an_average_is_the_mean_of_the_layers_that_a_block_stands_for(blocks: int, groups: list[list[int]]) -> None:
    teacher = make_model(seed=1, **BERT).encoder
    student = make_model(seed=2, sharing="none", num_layers=blocks).encoder
    copy_layers(student, teacher, "average")
    for name in ("attention", "feed_forward"):
        old, new = getattr(teacher, name), getattr(student, name)
        for block, members in zip(new, groups, strict=True):
            for key, tensor in block.state_dict().items():
                mean = torch.stack([old[number].state_dict()[key] for number in members]).mean(0)
                torch.testing.assert_close(tensor, mean, atol=1e-7, rtol=0)


# --- another tokenizer ------------------------------------------------------------------------------------------------


def test_words_are_translated(small_tokenizer: Tokenizer, other_tokenizer: Tokenizer) -> None:
    teacher = make_model(seed=1)
    table = teacher.encoder.embeddings.words.weight
    found = translate_words(teacher, small_tokenizer, other_tokenizer)
    assert found.shape == (other_tokenizer.vocab_size, table.shape[1])
    for name in SPECIAL:
        assert torch.equal(found[getattr(other_tokenizer, name)], table[getattr(small_tokenizer, name)])
    special = {getattr(other_tokenizer, name) for name in SPECIAL}
    counts = {0: 0, 1: 0, 2: 0}
    for token in {*range(other_tokenizer.vocab_size)} - special:
        ids, _ = small_tokenizer.encode_plain([other_tokenizer.decode([token])])
        counts[min(2, len(ids))] += 1
        if len(ids) == 1:
            assert torch.equal(found[token], table[int(ids[0])])
        else:
            mean = table[ids.tolist()].mean(0) if len(ids) else table.mean(0)
            torch.testing.assert_close(found[token], mean, atol=1e-6, rtol=0)
    assert counts[1] > 50
    assert counts[2] > 50


def test_words_keep_their_rows_under_the_same_tokenizer(small_tokenizer: Tokenizer) -> None:
    """A piece that begins a word is that piece again when its text is read alone."""
    teacher = make_model(seed=1)
    found = translate_words(teacher, small_tokenizer, small_tokenizer)
    id_of = small_tokenizer.id_of("▁the")
    assert id_of is not None
    assert torch.equal(found[id_of], teacher.encoder.embeddings.words.weight[id_of])


@pytest.mark.parametrize("size", [8, 12])
def test_a_student_with_word_pieces_of_its_own_begins_near_its_teacher(
    size: int, small_tokenizer: Tokenizer, other_tokenizer: Tokenizer
) -> None:
    """The same size of table is taken over as it is, a smaller one is fitted to the words by themselves."""
    teacher = make_model(seed=1)
    student = make_model(seed=2, vocab_size=other_tokenizer.vocab_size, embedding_size=size)
    drawn = make_model(seed=2, vocab_size=other_tokenizer.vocab_size, embedding_size=size)
    words = translate_words(teacher, small_tokenizer, other_tokenizer)
    begin_from_teacher(student, teacher, SAMPLE % 300, words)
    texts = [*make_sentences(100, seed=5)]
    wanted, given, random = (
        embed(model, tokenizer, texts)
        for model, tokenizer in ((teacher, small_tokenizer), (student, other_tokenizer), (drawn, other_tokenizer))
    )
    assert apart(given, wanted) < 0.7 * apart(random, wanted)
    if size == 12:
        assert torch.equal(student.encoder.embeddings.words.weight, words)


def embed(model: Model, tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    encoded = tokenizer.encode(texts, max_length=48)
    with torch.inference_mode():
        return model(torch.from_numpy(encoded.input_ids), torch.from_numpy(encoded.attention_mask)).embedding  # type: ignore[no-any-return]


def apart(vectors: Tensor, wanted: Tensor) -> float:
    """Mean of 1 - cosine."""
    return float((1 - torch.cosine_similarity(vectors, wanted)).mean())
