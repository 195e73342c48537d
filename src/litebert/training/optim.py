"""Optimisers and their schedule: LAMB as the paper used it, AdamW, warm-up and linear decay.

LAMB (You et al., 2020) is Adam whose step is scaled, tensor by tensor, to the size of the tensor: large batches then
train as well as small ones. A tensor that layers share is one tensor here, as everywhere.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

__all__ = ["Lamb", "OptimConfig", "learning_rate", "make_optimizer", "paper_recipe", "parameter_groups"]

_PAPER_BATCH = 4096


class OptimConfig(BaseModel):
    """How to step. The defaults are the paper's run: LAMB at a batch of 4,096, warm-up for 3,125 of 125,000 steps."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    optimizer: Literal["lamb", "adamw"] = "lamb"
    lr: Annotated[float, Field(gt=0, le=10)] = 0.00176
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    eps: Annotated[float, Field(gt=0)] = 1e-6
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    clip: Annotated[float, Field(gt=0)] = 1.0
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.025
    """Share of the run in which the rate rises."""


def paper_recipe(batch_size: int) -> OptimConfig:
    """The paper's run at another batch size: the rate goes with the root of the batch, warm-up with the run's length.

    That is the rule by which LAMB's authors move between batch sizes.

    >>> paper_recipe(4096) == OptimConfig(), round(paper_recipe(1024).lr, 6)
    (True, 0.00088)
    """
    scale: float = (batch_size / _PAPER_BATCH) ** 0.5
    return OptimConfig(lr=OptimConfig().lr * scale)


def learning_rate(progress: float, config: OptimConfig, step: float = 0.0) -> float:
    """The rate after some share of the run: linear warm-up, then linear decay to 0.

    `step` is the share that one step takes: with it the first step has its part of the rate, not a rate of 0.

    >>> config = OptimConfig(lr=1.0, warmup=0.25)
    >>> [learning_rate(done / 16, config, step=1 / 16) for done in (0, 1, 3, 4, 10, 15, 16)]
    [0.25, 0.5, 1.0, 1.0, 0.5, 0.08333333333333333, 0.0]
    """
    if progress < config.warmup:
        return config.lr * min(1.0, (progress + step) / config.warmup)
    return config.lr * max(0.0, (1 - progress) / (1 - config.warmup))


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices and tables, which decay and have a trust ratio; then LayerNorms and biases, which have neither."""
    norms = {
        id(parameter)
        for module in model.modules()
        if isinstance(module, nn.LayerNorm)
        for parameter in module.parameters()
    }
    trained = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    plain = [name.endswith("bias") or id(parameter) in norms for name, parameter in trained]
    parameters = [parameter for _, parameter in trained]
    groups = []
    for is_plain in (False, True):
        chosen = [parameter for parameter, found in zip(parameters, plain, strict=True) if found == is_plain]
        groups.append({"params": chosen, "weight_decay": 0.0 if is_plain else weight_decay, "adapts": not is_plain})
    return groups


def make_optimizer(model: nn.Module, config: OptimConfig) -> torch.optim.Optimizer:
    """The optimiser of a configuration, for all parameters of a model that are not frozen."""
    groups = parameter_groups(model, config.weight_decay)
    if config.optimizer == "lamb":
        return Lamb(groups, config.lr, (config.beta1, config.beta2), config.eps)
    return torch.optim.AdamW(groups, config.lr, (config.beta1, config.beta2), config.eps, fused=True)


class Lamb(torch.optim.Optimizer):
    """LAMB as in the paper's code: no bias correction, an unclipped trust ratio, decay inside the ratio."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.00176,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "adapts": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take one step with the gradients that are there."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if parameters:
                self._step_group(group, parameters)
        return loss

    def _step_group(self, group: dict[str, Any], parameters: list[Tensor]) -> None:
        beta1, beta2 = group["betas"]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        means, squares = self._moments(parameters)
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, group["eps"])
        updates = list(torch._foreach_div(means, roots))
        if group["weight_decay"]:
            torch._foreach_add_(updates, parameters, alpha=group["weight_decay"])
        if group["adapts"]:
            torch._foreach_mul_(updates, self._trust_ratios(parameters, updates))
        torch._foreach_add_(parameters, updates, alpha=-group["lr"])

    def _moments(self, parameters: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Running means of gradients and of their squares, zero at first."""
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        states = [self.state[parameter] for parameter in parameters]
        return [state["mean"] for state in states], [state["square"] for state in states]

    def _trust_ratios(self, parameters: list[Tensor], updates: list[Tensor]) -> list[Tensor]:
        """‖w‖ / ‖update‖ of each tensor, 1 where either is 0."""
        sizes = torch.stack(torch._foreach_norm(parameters))
        steps = torch.stack(torch._foreach_norm(updates))
        known = (sizes > 0) & (steps > 0)
        return list(torch.where(known, sizes / torch.where(known, steps, 1.0), 1.0).unbind())
