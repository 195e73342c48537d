"""What users of the encoder rely on: packing, keeping, depth, padding, and errors that say what to do."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from litebert.errors import RequestError
from litebert.model.layers import attention_bias, restarting_positions
from litebert.model.model import Model
from litebert.model.sharing import at_depth, block_counts
from tests.conftest import small_config, small_inputs


def make_model(**changes: object) -> Model:
    torch.manual_seed(0)
    return Model(small_config(**changes)).eval()


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(5, 96), min_size=1, max_size=12), min_size=1, max_size=4), st.integers(0, 5))
def test_packed_sequences_are_as_alone(sequences: list[list[int]], padding: int) -> None:
    model = make_model()
    ids = [i for sequence in sequences for i in sequence] + [0] * padding
    numbers = [n for n, sequence in enumerate(sequences, 1) for _ in sequence] + [0] * padding
    types = [i % 2 for i in ids]
    with torch.inference_mode():
        packed = model(
            torch.tensor([ids]), token_type_ids=torch.tensor([types]), sequence_ids=torch.tensor([numbers])
        ).last_hidden_state[0]
        start = 0
        for sequence in sequences:
            kinds = torch.tensor([[i % 2 for i in sequence]])
            alone = model(torch.tensor([sequence]), token_type_ids=kinds).last_hidden_state[0]
            torch.testing.assert_close(packed[start : start + len(sequence)], alone, atol=1e-5, rtol=0)
            start += len(sequence)


def test_packed_heads_summarise_each_sequence() -> None:
    config = small_config()
    model = Model(config, "pretraining").eval()
    first, second = [2, 9, 8, 3], [2, 40, 41, 42, 3]
    packed = {
        "input_ids": torch.tensor([first + second + [0]]),
        "sequence_ids": torch.tensor([[1] * 4 + [2] * 5 + [0]]),
        "sequence_starts": torch.tensor([[0, 4]]),
        "masked_positions": torch.tensor([[1, 6, -1]]),
    }
    output = model(**packed)
    assert output.sop_logits.shape == (1, 2, 2)
    assert output.prediction_logits.shape == (2, config.vocab_size)
    for number, (ids, position) in enumerate([(first, 1), (second, 2)]):
        alone = model(torch.tensor([ids]))
        torch.testing.assert_close(output.sop_logits[0, number], alone.sop_logits[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(
            output.prediction_logits[number], alone.prediction_logits[0, position], atol=1e-5, rtol=0
        )


def test_predictions_at_masked_positions_equal_those_of_all() -> None:
    config = small_config()
    model = Model(config, "masked-lm").eval()
    inputs = small_inputs(config)
    positions = torch.tensor([[3, 5, 9], [1, -1, -1], [0, 2, -1]])
    with torch.inference_mode():
        some = model(**inputs, masked_positions=positions).prediction_logits
        every = model(**inputs).logits
    rows, columns = (positions >= 0).nonzero(as_tuple=True)
    torch.testing.assert_close(some, every[rows, positions[rows, columns]], atol=1e-5, rtol=1e-5)


def test_padding_changes_nothing() -> None:
    config = small_config()
    model = make_model()
    inputs = small_inputs(config)
    with torch.inference_mode():
        batch = model(**inputs).last_hidden_state
        for row in range(3):
            count = int(inputs["attention_mask"][row].sum())
            alone = model(**{name: x[row : row + 1, :count] for name, x in inputs.items()}).last_hidden_state
            torch.testing.assert_close(batch[row, :count], alone[0], atol=1e-5, rtol=0)


def test_a_row_of_padding_alone_is_finite() -> None:
    model = make_model()
    output = model(torch.zeros(2, 5, dtype=torch.long), torch.tensor([[0] * 5, [1] * 5])).last_hidden_state
    assert output.isfinite().all()


@pytest.mark.parametrize("sharing", ["all", "groups"])
def test_depth_is_an_argument(sharing: str) -> None:
    config = small_config(sharing=sharing, num_groups=2 if sharing == "groups" else 1)
    inputs = small_inputs(config)
    deep = Model(config).eval()
    for depth in (2, 3, 4, 6, 8):
        other = Model(config.updated(num_layers=depth)).eval()
        other.load_state_dict(deep.state_dict())
        expected = other(**inputs).last_hidden_state
        torch.testing.assert_close(deep(**inputs, depth=depth).last_hidden_state, expected, atol=0, rtol=0)
    with pytest.raises(RequestError, match="between 1 and 8"):
        deep(**inputs, depth=9)
    with pytest.raises(RequestError, match="between 1 and 8"):
        deep(**inputs, depth=0)


@pytest.mark.parametrize(
    ("sharing", "groups"), [("all", 1), ("attention", 1), ("ffn", 1), ("none", 1), ("groups", 2), ("groups", 4)]
)
def test_an_encoder_of_fewer_layers_says_what_the_whole_one_says_at_that_depth(sharing: str, groups: int) -> None:
    deep = make_model(sharing=sharing, num_groups=groups)
    inputs = small_inputs(deep.config)
    for depth in range(1, deep.config.num_layers + 1):
        shallow = Model(at_depth(deep.config, depth)).eval()
        shallow.encoder.begin_with(deep.encoder)
        assert block_counts(shallow.config) <= block_counts(deep.config)
        assert max(block_counts(shallow.config)) <= depth
        with torch.inference_mode():
            said = shallow.encoder(**inputs)
            torch.testing.assert_close(said, deep.encoder(**inputs, depth=depth), atol=0, rtol=0)
    with pytest.raises(RequestError, match="depth must be between 1 and"):
        at_depth(deep.config, 9)


@pytest.mark.parametrize("sharing", ["all", "attention", "ffn", "none"])
def test_one_run_shows_the_states_of_every_depth(sharing: str) -> None:
    model = make_model(sharing=sharing)
    inputs = small_inputs(model.config)
    with torch.inference_mode():
        passes = [*model.encoder.passes(**inputs)]
        assert len(passes) == model.config.num_layers
        for depth, states in enumerate(passes, start=1):
            torch.testing.assert_close(states, model.encoder(**inputs, depth=depth), atol=1e-6, rtol=0)
        assert len([*model.encoder.passes(**inputs, depth=2)]) == 2
    for depth in (0, 9):
        with pytest.raises(RequestError, match="depth must be between 1 and"):
            next(model.encoder.passes(**inputs, depth=depth))


def test_blocks_within_a_layer_are_passes_of_their_own() -> None:
    model = make_model(sharing="groups", num_inner_layers=2, num_layers=3)
    inputs = small_inputs(model.config)
    with torch.inference_mode():
        passes = [*model.encoder.passes(**inputs, depth=4)]
        assert len(passes) == 8
        for depth in (1, 2, 3, 4):
            expected = model.encoder(**inputs, depth=depth)
            torch.testing.assert_close(passes[2 * depth - 1], expected, atol=1e-6, rtol=0)


def test_passes_of_packed_rows_are_those_of_each_sequence() -> None:
    model = make_model()
    first, second = [2, 9, 8, 3], [2, 40, 41, 42, 3]
    numbers = torch.tensor([[1] * 4 + [2] * 5 + [0]])
    with torch.inference_mode():
        packed = [*model.encoder.passes(torch.tensor([[*first, *second, 0]]), sequence_ids=numbers)]
        alone = [[*model.encoder.passes(torch.tensor([ids]))] for ids in (first, second)]
    for depth, states in enumerate(packed):
        torch.testing.assert_close(states[:, :4], alone[0][depth], atol=1e-5, rtol=0)
        torch.testing.assert_close(states[:, 4:9], alone[1][depth], atol=1e-5, rtol=0)


def test_restarting_positions() -> None:
    ids = torch.tensor([[1, 1, 2, 2, 2, 0], [1, 2, 3, 3, 0, 0]])
    assert restarting_positions(ids).tolist() == [[0, 1, 0, 1, 2, 0], [0, 0, 0, 1, 0, 1]]


def test_no_bias_where_nothing_is_masked() -> None:
    assert attention_bias(torch.ones(2, 3), None, torch.float32) is None
    assert attention_bias(None, None, torch.float32) is None


def test_too_long_and_unknown_ids_are_named() -> None:
    model = make_model()
    with pytest.raises(RequestError, match=r"49 tokens.*at most 48"):
        model(torch.ones(1, 49, dtype=torch.long))
    with pytest.raises(RequestError, match="id 97 is not among the model's 97"):
        model(torch.tensor([[97]]))
    with pytest.raises(RequestError, match="id -1"):
        model(torch.tensor([[-1]]))
    with pytest.raises(RequestError, match="token type 2 is not among the model's 2"):
        model(torch.tensor([[5]]), token_type_ids=torch.tensor([[2]]))
    with pytest.raises(RequestError, match="nothing to read"):
        model(torch.zeros(0, 4, dtype=torch.long))


def test_packed_rows_may_be_longer_than_a_sequence() -> None:
    model = make_model()
    ids = torch.full((1, 60), 7)
    output = model(ids, sequence_ids=torch.tensor([[1] * 30 + [2] * 30])).last_hidden_state
    torch.testing.assert_close(output[0, :30], output[0, 30:], atol=1e-5, rtol=0)


@pytest.mark.parametrize("gradients", [True, False])
def test_positions_that_are_not_there_are_refused(gradients: bool) -> None:
    encoder = make_model().encoder
    with torch.set_grad_enabled(gradients), pytest.raises(RequestError, match="between 0 and 3"):
        encoder(torch.ones(2, 4, dtype=torch.long), keep=torch.tensor([[0], [4]]))


def test_initial_weights() -> None:
    model = Model(small_config(vocab_size=5000, hidden_size=96, initializer_range=0.02), "pretraining")
    words = model.encoder.embeddings.words.weight
    assert words[0].abs().max() == 0
    assert words.abs().max() <= 0.04
    assert words[1:].std().item() == pytest.approx(0.02 * 0.8796, rel=0.02)  # a normal cut at two deviations
    assert all(not p.any() for n, p in model.named_parameters() if n.endswith("bias"))
    assert all((p == 1).all() for n, p in model.named_parameters() if n.endswith("norm.weight"))
