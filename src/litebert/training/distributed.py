"""One process or many: who I am among them, what we add up, and who holds which part of the weights.

Under torchrun every process runs the same loop. With DDP each holds the whole model; with FSDP2 each holds a part of
every tensor and gathers the rest when it is needed. A block that layers share is gathered once for all of them, with
the rest of the model; only blocks that a single layer uses are gathered one by one. CUDA paths are not run by the
project's own tests; gloo on CPUs is.
"""

import contextlib
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from litebert.model.model import Model
from litebert.runtime import num_cores
from litebert.training.config import Parallel

__all__ = ["World", "accumulating", "clip_gradients", "copy_into", "gather", "join_world", "like_parameter", "spread"]

_TIMEOUT = timedelta(minutes=30)


@dataclass(frozen=True)
class World:
    """The processes of a run, seen from one of them."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_main(self) -> bool:
        """Whether this process writes and speaks for all."""
        return self.rank == 0

    def add(self, values: list[float]) -> list[float]:
        """Add up numbers over all processes, position by position, in double precision."""
        if self.size == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def agree(self, tensors: Iterable[Tensor]) -> None:
        """Take over the main process's values, to the last digit; parts of sharded tensors are cut from its own."""
        for tensor in tensors:
            if self.size > 1 and not isinstance(tensor, DTensor):
                dist.broadcast(tensor.detach(), 0)

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            dist.barrier()


@contextlib.contextmanager
def join_world() -> Iterator[World]:
    """Join the processes that torchrun started, if it did."""
    cuda = torch.cuda.is_available()
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local_rank) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    if "RANK" not in os.environ:
        yield World(device=device)
        return
    if not cuda:
        torch.set_num_threads(max(1, num_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", 1))))
    store, rank, size = next(rendezvous("env://", timeout=_TIMEOUT))
    # torchrun may keep its store over a restart. Each attempt has a name of its own in it: otherwise a process would
    # find the addresses of dead processes there, and wait for them.
    attempt = PrefixStore(f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
    backend = "nccl" if cuda else "gloo"
    dist.init_process_group(backend, store=attempt, rank=rank, world_size=size, timeout=_TIMEOUT)
    try:
        yield World(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()


def spread(model: Model, world: World, parallel: Parallel, spares_weights: bool = False) -> nn.Module:
    """Make a model that trains as one over all processes; alone, it is the model itself.

    Where steps spare some weights, these have no gradient; DDP must then look for them in every step.
    """
    model.to(world.device)
    if world.size == 1:
        return model
    if parallel == "ddp":
        device_ids = None if world.device.type == "cpu" else [world.device]
        return DistributedDataParallel(model, device_ids, find_unused_parameters=spares_weights)
    mesh = init_device_mesh(world.device.type, (world.size,))
    if model.config.sharing == "none":
        for block in (*model.encoder.attention, *model.encoder.feed_forward):
            fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    # It warns of outputs that are views, in case somebody changes them in place; no loss does.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    return model


@contextlib.contextmanager
def accumulating(model: nn.Module, more_to_come: bool) -> Iterator[None]:
    """Leave gradients unshared among processes while more micro-batches of the same step are to come."""
    if isinstance(model, DistributedDataParallel) and more_to_come:
        with model.no_sync():
            yield
        return
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(not more_to_come)
    yield


def gather(tensor: Tensor) -> Tensor:
    """The whole of a tensor, on the CPU, wherever its parts are; all processes must ask together."""
    whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return whole.detach().cpu()


def copy_into(target: Tensor, whole: Tensor) -> None:
    """Fill a parameter, or this process's part of it, from the whole."""
    with torch.no_grad():
        target.copy_(like_parameter(target, whole))


def like_parameter(parameter: Tensor, whole: Tensor) -> Tensor:
    """A tensor that lies where the parameter lies, in the same parts."""
    whole = whole.to(parameter.device)
    if isinstance(parameter, DTensor):
        return distribute_tensor(whole, parameter.device_mesh, parameter.placements)
    return whole


def clip_gradients(model: nn.Module, limit: float) -> float:
    """Scale the gradients down to a norm; return the norm that they had."""
    norm: Any = nn.utils.clip_grad_norm_(model.parameters(), limit)
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
