"""Optimisers step for step beside an independent reference in NumPy, and the schedule around them."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from litebert.model.model import Model
from litebert.training.optim import Lamb, OptimConfig, learning_rate, make_optimizer, paper_recipe, parameter_groups
from tests.conftest import small_config

Array = NDArray[np.float64]
Step = Callable[[list[Array], list[Array], int], None]


def rate_of(number: int, config: OptimConfig) -> float:
    """The rate of one of a hundred steps."""
    return learning_rate(number / 100, config, step=1 / 100)


def reference_lamb(config: OptimConfig, decays: list[bool]) -> Step:
    """You et al., 2020, algorithm 2, without bias correction."""
    means: dict[int, Array] = {}
    squares: dict[int, Array] = {}

    def step(weights: list[Array], gradients: list[Array], number: int) -> None:
        for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
            means[i] = config.beta1 * means.get(i, np.zeros_like(w)) + (1 - config.beta1) * g
            squares[i] = config.beta2 * squares.get(i, np.zeros_like(w)) + (1 - config.beta2) * g * g
            update = means[i] / (np.sqrt(squares[i]) + config.eps)
            ratio = 1.0
            if decays[i]:
                update = update + config.weight_decay * w
                w_norm, u_norm = np.linalg.norm(w), np.linalg.norm(update)
                ratio = float(w_norm / u_norm) if w_norm > 0 and u_norm > 0 else 1.0
            w -= rate_of(number, config) * ratio * update

    return step


def reference_adamw(config: OptimConfig, decays: list[bool]) -> Step:
    """Loshchilov and Hutter, 2019, with bias correction."""
    means: dict[int, Array] = {}
    squares: dict[int, Array] = {}

    def step(weights: list[Array], gradients: list[Array], number: int) -> None:
        rate = rate_of(number, config)
        for i, (w, g) in enumerate(zip(weights, gradients, strict=True)):
            w -= rate * (config.weight_decay if decays[i] else 0.0) * w
            means[i] = config.beta1 * means.get(i, np.zeros_like(w)) + (1 - config.beta1) * g
            squares[i] = config.beta2 * squares.get(i, np.zeros_like(w)) + (1 - config.beta2) * g * g
            mean = means[i] / (1 - config.beta1 ** (number + 1))
            square = squares[i] / (1 - config.beta2 ** (number + 1))
            w -= rate * mean / (np.sqrt(square) + config.eps)

    return step


class Small(torch.nn.Module):
    """A matrix, a table that begins at zero, a bias and a LayerNorm."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(7, 5)
        self.table = torch.nn.Parameter(torch.zeros(4, 3))
        self.norm = torch.nn.LayerNorm(6)


@pytest.mark.parametrize("name", ["lamb", "adamw"])
def test_a_hundred_steps_equal_the_reference(name: str) -> None:
    torch.manual_seed(0)
    model = Small().double()
    config = OptimConfig(optimizer=name, lr=0.02, warmup=0.1)  # type: ignore[arg-type]
    optimizer = make_optimizer(model, config)
    parameters = dict(model.named_parameters())
    decays = [name in ("dense.weight", "table") for name in parameters]
    weights = [parameter.detach().numpy().copy() for parameter in parameters.values()]
    step = (reference_lamb if name == "lamb" else reference_adamw)(config, decays)
    generator = np.random.default_rng(1)
    for number in range(100):
        gradients = [generator.normal(size=w.shape) * 10.0 ** generator.integers(-6, 3) for w in weights]
        for parameter, gradient in zip(parameters.values(), gradients, strict=True):
            parameter.grad = torch.from_numpy(gradient)
        for group in optimizer.param_groups:
            group["lr"] = rate_of(number, config)
        optimizer.step()
        step(weights, gradients, number)
        for parameter, expected in zip(parameters.values(), weights, strict=True):
            np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("sharing", ["all", "none"])
def test_groups_hold_every_parameter_once(sharing: str) -> None:
    model = Model(small_config(sharing=sharing), head="pretraining")
    decaying, plain = parameter_groups(model, 0.01)
    chosen = [*decaying["params"], *plain["params"]]
    assert len(chosen) == len({id(parameter) for parameter in chosen}) == len(list(model.parameters()))
    assert all(parameter.dim() == 1 for parameter in plain["params"])
    assert all(parameter.dim() == 2 for parameter in decaying["params"])
    assert (decaying["weight_decay"], plain["weight_decay"]) == (0.01, 0.0)


def test_parameters_without_a_gradient_stay() -> None:
    model = Small()
    optimizer = Lamb(model.parameters(), lr=0.1)
    model.table.grad = torch.ones_like(model.table)
    before = model.dense.weight.detach().clone()
    optimizer.step()
    assert torch.equal(model.dense.weight, before)
    assert (model.table < 0).all()  # ratio 1 where the tensor is zero


def test_state_is_saved_and_loaded() -> None:
    models = [Small(), Small()]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [Lamb(model.parameters(), lr=0.1) for model in models]

    def step(index: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for parameter in models[index].parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizers[index].step()

    step(0, 1)
    models[1].load_state_dict(models[0].state_dict())
    optimizers[1].load_state_dict(copy.deepcopy(optimizers[0].state_dict()))
    step(0, 2)
    step(1, 2)
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_schedule_warms_up_and_ends_at_zero() -> None:
    config = paper_recipe(256)
    rates = [learning_rate(step / 2000, config, step=1 / 2000) for step in range(2001)]
    assert max(rates) == rates[49] == rates[50] == pytest.approx(0.00176 / 4)
    assert rates[:50] == sorted(rates[:50])
    assert rates[50:] == sorted(rates[50:], reverse=True)
    assert rates[0] == pytest.approx(rates[49] / 50)
    assert rates[-1] == 0
    with pytest.raises(ValueError, match="lr"):
        OptimConfig(lr=-1.0)
