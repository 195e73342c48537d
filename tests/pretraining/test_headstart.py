"""A head start writes into fresh weights what it promises, and leaves an ordinary model."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from litebert.config import ModelConfig
from litebert.model.model import Model
from litebert.pretraining.headstart import give_head_start, stack_layers, write_segment_heads
from tests.conftest import need

OFFSETS = {0: -1, 1: 1, 3: -2, 4: 2}
MATCHING = 2


def fresh(**changes: int | str) -> Model:
    """An encoder with the proportions of albert-mini."""
    shape: dict[str, Any] = {"vocab_size": 500, "embedding_size": 128, "hidden_size": 256, "num_heads": 4}
    shape |= {"intermediate_size": 256, "num_layers": 4, "max_positions": 128}
    torch.manual_seed(0)
    return Model(ModelConfig(**{**shape, **changes}), "pretraining").eval()


def some_frequencies(model: Model) -> Tensor:
    weights = 1 / torch.arange(1, model.config.vocab_size + 1)
    return weights / weights.sum()


@torch.no_grad()
def first_attention(model: Model, ids: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
    """Attention probabilities of the first layer: (batch, heads, tokens, tokens)."""
    hidden = model.encoder.embeddings(ids, token_type_ids, None)
    block = model.encoder.attention[0]
    query, key, _ = (block._split(part) for part in block.qkv(hidden).chunk(3, dim=-1))
    return (query @ key.transpose(2, 3) / math.sqrt(query.shape[-1])).softmax(-1)


def share_looking_at(model: Model, offset: int, head: int, words: str) -> float:
    """In how many places a head looks most at the position that is so far away."""
    tokens = model.config.max_positions
    ids = torch.randint(5, model.config.vocab_size, (8, tokens), generator=torch.Generator().manual_seed(1))
    best = first_attention(model, ids if words == "random" else ids[:, :1].expand_as(ids))[:, head].argmax(-1)
    places = torch.arange(tokens)
    inner = (places + offset >= 0) & (places + offset < tokens)
    return float((best == places + offset)[:, inner].float().mean())


def shares(model: Model, words: str) -> list[float]:
    """The same for every head that is to look at a neighbour."""
    heads = [head for head in OFFSETS if head < model.config.num_heads]
    return [share_looking_at(model, OFFSETS[head], head, words) for head in heads]


SHAPES: list[dict[str, int | str]] = [
    {},
    {"sharing": "none"},
    {"embedding_size": 256},
    {"num_heads": 2},
    {"num_heads": 3, "head_size": 64},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_first_heads_look_at_their_neighbours_where_words_are_alike(shape: dict[str, int | str]) -> None:
    model = fresh(**shape)
    assert max(shares(model, "alike")) < 0.1
    give_head_start(model, some_frequencies(model))
    assert min(shares(model, "alike")) > 0.7


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_whatever_the_words_the_first_heads_lean_to_their_side(shape: dict[str, int | str]) -> None:
    model = fresh(**shape)
    give_head_start(model, some_frequencies(model))
    ids = torch.randint(5, model.config.vocab_size, (8, 128), generator=torch.Generator().manual_seed(1))
    attention = first_attention(model, ids)
    for head, offset in OFFSETS.items():
        if head >= model.config.num_heads:
            continue
        there, opposite = (attention[:, head].diagonal(side, 1, 2).mean() for side in (offset, -offset))
        assert there > 1.5 * opposite


@pytest.mark.parametrize("shape", [*SHAPES[:3], SHAPES[4], {"num_heads": 8}], ids=str)
def test_a_word_finds_the_same_word_in_the_other_segment(shape: dict[str, int | str]) -> None:
    model = fresh(**shape)
    ids = torch.randperm(400, generator=torch.Generator().manual_seed(1))[:40] + 5
    ids = torch.cat([ids, ids.flip(0)])[None]  # every word once in each segment, in another place
    token_types = (torch.arange(80) >= 40).long()[None]
    there = 79 - torch.arange(80)

    def share_found() -> float:
        attention = first_attention(model, ids, token_types)[0, MATCHING]
        return float((attention.argmax(-1) == there).float().mean())

    assert share_found() < 0.1
    give_head_start(model, some_frequencies(model))
    assert share_found() > 0.9


@pytest.mark.parametrize("shape", [{}, {"sharing": "none"}, {"embedding_size": 256}, {"num_heads": 8}], ids=str)
def test_the_last_heads_read_one_segment_each(shape: dict[str, int | str]) -> None:
    model = fresh(**shape)
    give_head_start(model, some_frequencies(model))
    write_segment_heads(model, some_frequencies(model))
    ids = torch.randint(5, model.config.vocab_size, (8, 80), generator=torch.Generator().manual_seed(1))
    types = (torch.arange(80) >= 30).long().expand_as(ids)
    found = first_attention(model, ids, types)[:, -2:]  # (batch, 2, tokens, tokens)
    on_second = (found * types[:, None, None]).sum(-1)
    assert float(on_second[:, 0].mean()) < 0.1
    assert float(on_second[:, 1].mean()) > 0.9


def test_what_they_read_tells_swapped_segments_apart() -> None:
    """The first state changes by a multiple of what it does from random weights when segments are swapped."""

    @torch.no_grad()
    def change(model: Model) -> float:
        start, first, second = torch.tensor([2]), torch.arange(5, 30), torch.arange(200, 225)
        types = (torch.arange(51) >= 26).long()[None]
        states = [
            model.encoder(torch.cat([start, *pair])[None], None, types, depth=1)[0, 0]
            for pair in ((first, second), (second, first))
        ]
        return float((states[0] - states[1]).norm())

    plain, reading = fresh(), fresh()
    for model in (plain, reading):
        give_head_start(model, some_frequencies(model))
    write_segment_heads(reading, some_frequencies(reading))
    assert change(reading) > 3 * change(plain)


def test_two_heads_are_too_few_to_read_segments() -> None:
    model = fresh(num_heads=2)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    write_segment_heads(model, some_frequencies(model))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_with_one_token_type_there_is_no_other_segment() -> None:
    model = fresh(num_token_types=1)
    give_head_start(model, some_frequencies(model))
    assert min(shares(model, "alike")) > 0.7


def test_a_fresh_model_says_the_frequencies() -> None:
    model = fresh()
    frequencies = some_frequencies(model)
    give_head_start(model, frequencies)
    torch.testing.assert_close(model.heads["masked_lm"].bias.detach().exp(), frequencies)
    with torch.no_grad():
        said = model(torch.randint(5, 500, (4, 32))).prediction_logits.softmax(-1).mean((0, 1))
    assert float((said - frequencies).abs().sum()) < 0.2


def test_all_other_weights_stay_as_they_were() -> None:
    model, twin = fresh(), fresh()
    give_head_start(model, some_frequencies(model))
    changed = {
        name
        for (name, tensor), other in zip(model.state_dict().items(), twin.state_dict().values(), strict=True)
        if not torch.equal(tensor, other)
    }
    assert changed == {
        "heads.masked_lm.bias",
        "encoder.embeddings.positions.weight",
        "encoder.embeddings.projection.weight",
        "encoder.attention.0.qkv.weight",
        "encoder.attention.0.qkv.bias",
    }
    size = model.config.hidden_size
    for part in ("weight", "bias"):
        values = [getattr(each.encoder.attention[0].qkv, part)[2 * size :] for each in (model, twin)]
        assert torch.equal(*values)  # values stay as they were


def test_it_can_be_saved_opened_by_transformers_and_trained(tmp_path: Path) -> None:
    model = fresh()
    give_head_start(model, some_frequencies(model))
    model.save_pretrained(tmp_path / "model")
    peer = need("transformers").AlbertForPreTraining.from_pretrained(tmp_path / "model").eval()
    ids = torch.randint(5, 500, (3, 20))
    with torch.no_grad():
        torch.testing.assert_close(model(ids).prediction_logits, peer(ids).prediction_logits, rtol=1e-4, atol=1e-5)
    model.train()(ids).prediction_logits.sum().backward()
    assert model.encoder.attention[0].qkv.weight.grad is not None


def test_waves_that_do_not_fit_through_are_left_out() -> None:
    model, twin = (fresh(hidden_size=64, num_heads=2) for _ in range(2))
    give_head_start(model, some_frequencies(model))
    assert torch.equal(model.encoder.attention[0].qkv.weight, twin.encoder.attention[0].qkv.weight)
    assert torch.isfinite(model.encoder.embeddings.positions.weight).all()


def test_stacked_layers_begin_as_trained_ones_that_run_more_often() -> None:
    shared, own = fresh(sharing="groups", num_groups=2), fresh(sharing="none")
    own.load_state_dict({**own.state_dict(), **shared.state_dict()})  # two trained layers, and two that are not
    ids = torch.randint(5, 500, (2, 16), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = shared(ids).prediction_logits
        assert not torch.allclose(own(ids).prediction_logits, expected, atol=1e-2)
        stack_layers(own, trained=2, depth=4)
        torch.testing.assert_close(own(ids).prediction_logits, expected)
