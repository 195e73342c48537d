"""The written-out backward pass gives what autograd gives."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from litebert.config import ModelConfig
from litebert.model import encoder as encoder_module
from litebert.model.encoder import Encoder
from litebert.model.lean import kernels, stack
from litebert.model.model import Model
from tests.conftest import small_config, small_inputs

CONFIGS: dict[str, ModelConfig] = {
    "all": small_config(),
    "attention": small_config(sharing="attention"),
    "ffn": small_config(sharing="ffn"),
    "none": small_config(sharing="none"),
    "groups": small_config(sharing="groups", num_groups=2, num_inner_layers=2),
    "erf gelu": small_config(activation="gelu"),
    "fewer heads": small_config(sharing="none", num_heads=2, head_size=8),
}


def make_encoder(config: ModelConfig) -> Encoder:
    torch.manual_seed(0)
    return Model(config).encoder


def gradients(
    encoder: Encoder, explicit: bool, monkeypatch: pytest.MonkeyPatch, **call: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    monkeypatch.setattr(encoder_module, "can_run_lean", lambda *_: explicit)
    encoder.zero_grad()
    output = encoder(**call)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    (output * weights).sum().backward()
    return output.detach(), {n: p.grad.clone() for n, p in encoder.named_parameters() if p.grad is not None}


def assert_same(found: tuple[Tensor, dict[str, Tensor]], expected: tuple[Tensor, dict[str, Tensor]]) -> None:
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in expected[1].items():
        scale = gradient.abs().max().item()
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-4, atol=1e-5 * max(scale, 1), msg=name)


@pytest.mark.parametrize("longest_dense", [0, 256], ids=["blocks", "dense"])
@pytest.mark.parametrize("kept", [False, True], ids=["all positions", "kept positions"])
@pytest.mark.parametrize("name", CONFIGS)
def test_equal_to_autograd(name: str, kept: bool, longest_dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "LONGEST_DENSE_ATTENTION", longest_dense)
    encoder = make_encoder(CONFIGS[name])
    inputs: dict[str, Any] = small_inputs(CONFIGS[name])
    if kept:
        inputs["keep"] = torch.tensor([[0, 4, 4], [1, 0, 2], [10, 3, 7]])
    assert_same(gradients(encoder, True, monkeypatch, **inputs), gradients(encoder, False, monkeypatch, **inputs))


def test_keeping_every_position_in_order_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make_encoder(CONFIGS["all"])
    inputs: dict[str, Any] = small_inputs(CONFIGS["all"])
    keep = torch.arange(17).expand(3, -1)
    expected = gradients(encoder, False, monkeypatch, **inputs)
    assert_same(gradients(encoder, True, monkeypatch, **inputs, keep=keep), expected)


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("kept", [False, True])
def test_recomputation_gives_identical_gradients(explicit: bool, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make_encoder(CONFIGS["all"])
    inputs: dict[str, Any] = small_inputs(CONFIGS["all"])
    if kept:
        inputs["keep"] = torch.tensor([[0, 4], [1, 0], [10, 3]])
    output, expected = gradients(encoder, explicit, monkeypatch, **inputs)
    encoder.recompute = True
    again, found = gradients(encoder, explicit, monkeypatch, **inputs)
    assert torch.equal(output, again)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_recomputation_keeps_dropout_masks() -> None:
    config = small_config(hidden_dropout=0.3, attention_dropout=0.3)
    encoder = make_encoder(config).train()
    results = []
    for recompute in (False, True):
        encoder.recompute = recompute
        encoder.zero_grad()
        torch.manual_seed(7)
        encoder(**small_inputs(config)).sum().backward()
        results.append([p.grad.clone() for p in encoder.parameters() if p.grad is not None])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("longest_dense", [0, 256], ids=["blocks", "dense"])
def test_packed_rows(longest_dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "LONGEST_DENSE_ATTENTION", longest_dense)
    config = CONFIGS["all"]
    encoder = make_encoder(config)
    ids = small_inputs(config)["input_ids"]
    sequences = torch.tensor([[1] * 6 + [2] * 11, [1] * 8 + [2] * 3 + [0] * 6, [1] * 2 + [2] * 9 + [3] * 4 + [0] * 2])
    call: dict[str, Any] = {"input_ids": ids, "sequence_ids": sequences}
    expected = gradients(encoder, False, monkeypatch, **call)
    assert_same(gradients(encoder, True, monkeypatch, **call), expected)
    call["keep"] = torch.tensor([[0, 6], [8, 9], [2, 11]])
    assert_same(gradients(encoder, True, monkeypatch, **call), gradients(encoder, False, monkeypatch, **call))


@pytest.mark.parametrize("longest_dense", [0, 256], ids=["blocks", "dense"])
@pytest.mark.parametrize("kept", [False, True], ids=["all positions", "kept positions"])
@pytest.mark.parametrize("name", ["all", "groups", "erf gelu"])
def test_products_in_bf16_are_as_near_as_autocast_is(
    name: str, kept: bool, longest_dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack, "LONGEST_DENSE_ATTENTION", longest_dense)
    encoder = make_encoder(CONFIGS[name])
    inputs: dict[str, Any] = small_inputs(CONFIGS[name])
    if kept:
        inputs["keep"] = torch.tensor([[0, 4, 4], [1, 0, 2], [10, 3, 7]])
    states, expected = gradients(encoder, False, monkeypatch, **inputs)
    errors = {}
    for explicit in (True, False):
        with torch.autocast("cpu", torch.bfloat16):
            found, grads = gradients(encoder, explicit, monkeypatch, **inputs)
        assert (found.dtype == torch.float32) == explicit  # residuals and norms keep their digits
        assert grads.keys() == expected.keys()
        scale = {n: float(g.norm()) for n, g in expected.items()}  # a key's bias has none: softmax does not see it
        errors[explicit] = [float((grads[n] - expected[n]).norm()) / scale[n] for n in expected if scale[n] > 1e-3]
        assert float((found.float() - states).norm() / states.norm()) < 0.02
    assert 0 < max(errors[True]) < 0.05
    assert sum(errors[True]) < 1.5 * sum(errors[False])


@pytest.mark.parametrize("name", ["all", "groups"])
def test_states_on_the_way(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked about some of the layers, or about none after the second, gradients are autograd's."""
    encoder, inputs = make_encoder(CONFIGS[name]), small_inputs(CONFIGS[name])
    for asked in ([0, 2, 3], [1], [3]):
        found = {}
        for explicit in (True, False):
            monkeypatch.setattr(encoder_module, "can_run_lean", lambda *_, explicit=explicit: explicit)
            encoder.zero_grad()
            states = [*encoder.passes(**inputs)]
            sum((index + 1) * states[index].square().mean() for index in asked).backward()  # type: ignore[union-attr]
            grads = {n: p.grad.clone() for n, p in encoder.named_parameters() if p.grad is not None and p.grad.any()}
            found[explicit] = (torch.stack(states).detach(), grads)
        assert_same(found[True], found[False])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda encoder: encoder.attention[0].register_forward_hook(lambda *_: None),
        lambda encoder: encoder.feed_forward[0].up.register_full_backward_hook(lambda *_: None),
        lambda encoder: encoder.feed_forward[0].up.weight.requires_grad_(False),
        lambda encoder: encoder.double(),
    ],
    ids=["hook", "backward hook", "frozen", "float64"],
)
def test_steps_aside_where_it_does_not_apply(spoil: Callable[[Encoder], Any]) -> None:
    encoder = make_encoder(CONFIGS["all"])
    hidden = torch.zeros(1, 3, 24)
    assert stack.can_run_lean(encoder, hidden)
    spoil(encoder)
    assert not stack.can_run_lean(encoder, hidden.to(encoder.embeddings.words.weight.dtype))


def test_steps_aside_for_dropout_and_without_gradients() -> None:
    hidden = torch.zeros(1, 3, 24)
    encoder = make_encoder(small_config(hidden_dropout=0.1))
    assert not stack.can_run_lean(encoder.train(), hidden)
    assert stack.can_run_lean(encoder.eval(), hidden)
    with torch.no_grad():
        assert not stack.can_run_lean(encoder, hidden)


def test_unused_blocks_get_no_gradient_and_a_second_backward_is_explained() -> None:
    encoder = make_encoder(CONFIGS["none"])
    loss = encoder(**small_inputs(CONFIGS["none"]), depth=2).sum()
    loss.backward(retain_graph=True)
    assert encoder.attention[1].qkv.weight.grad is not None
    assert encoder.attention[2].qkv.weight.grad is None
    with pytest.raises(RuntimeError, match="run the model again"):
        loss.backward()


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler uses what torch deprecates
@pytest.mark.parametrize("sizes_vary", [False, True])
@pytest.mark.parametrize("name", ["all", "groups", "erf gelu"])
def test_compiled_kernels_equal_eager_ones(name: str, sizes_vary: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make_encoder(CONFIGS[name])
    inputs: dict[str, Any] = small_inputs(CONFIGS[name])
    inputs["keep"] = torch.tensor([[0, 4, 4], [1, 0, 2], [10, 3, 7]])
    expected = gradients(encoder, True, monkeypatch, **inputs)
    assert kernels.use_compiled(True, sizes_vary)
    try:
        assert_same(gradients(encoder, True, monkeypatch, **inputs), expected)
    finally:
        kernels.use_compiled(False)


def test_training_goes_on_where_kernels_cannot_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no compiler works here\nand this is why")

    states, bias = torch.randn(6, 8), torch.randn(8)
    split_heads = kernels._kernel(kernels.split_heads.__wrapped__)  # type: ignore[attr-defined]  # compiled by no test before
    expected = split_heads(states, bias, 1, 2, 4)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(torch, "compile", refuse)
    assert kernels.use_compiled(True)
    with pytest.warns(UserWarning, match=r"goes on uncompiled.*no compiler works here\)$"):
        found = split_heads(states, bias, 1, 2, 4)
    assert torch.equal(found, expected)
    assert torch.equal(split_heads(states, bias, 1, 2, 4), expected)  # and says it once


def test_compiled_expressions_equal_the_library() -> None:
    """The σ form of tanh-GELU that is compiled, and its derivative, against torch's own."""
    x = torch.linspace(-12, 12, 4001).view(-1, 1).requires_grad_()
    bias = torch.tensor([0.25])
    library = torch.nn.functional.gelu(x + bias, approximate="tanh")
    (expected,) = torch.autograd.grad(library.sum(), x)
    ours = kernels._tanh_gelu.__wrapped__(x.detach(), bias)  # type: ignore[attr-defined]
    gradient, again = kernels._tanh_gelu_gradient.__wrapped__(torch.ones_like(x), x.detach(), bias)  # type: ignore[attr-defined]
    torch.testing.assert_close(ours, library.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(again, library.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=2e-6)
