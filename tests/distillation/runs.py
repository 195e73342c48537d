"""Small distillations for tests: teachers, what is asked of their students, and runs of a second."""

from pathlib import Path
from typing import Any
from unittest import mock

import torch

from litebert.config import Head
from litebert.corpus.corpus import Corpus
from litebert.corpus.stream import StreamConfig
from litebert.distillation.config import DistillConfig, LossWeights
from litebert.distillation.job import Distillation, RatedPairs, distill
from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer
from litebert.training.config import TrainConfig
from litebert.training.distributed import World
from litebert.training.job import RunResult
from litebert.training.optim import OptimConfig
from tests.conftest import small_config
from tests.faults.run_pretraining import faulty
from tests.parity.peers import randomize

BERT: dict[str, Any] = {"family": "bert", "sharing": "none", "embedding_size": 24, "activation": "gelu"}
"""What makes a small ALBERT a BERT."""


def make_model(head: Head = "sentence-embedding", seed: int = 0, **changes: Any) -> Model:
    """A small model in which no parameter is 0 or 1; the same for the same seed."""
    torch.manual_seed(seed)
    model = Model(small_config(**{"vocab_size": 400, "initializer_range": 0.1, **changes}), head).eval()
    randomize(model, seed)
    return model


def make_teacher(folder: Path, tokenizer: Tokenizer, seed: int = 0, head: Head = "none", **changes: Any) -> Path:
    """A model folder with something to teach: random weights are as hard to learn as any."""
    return make_model(head, seed, **{"vocab_size": tokenizer.vocab_size, **changes}).save_pretrained(folder, tokenizer)


def tiny_distillation(
    teacher: Path,
    model: dict[str, Any] | None = None,
    stream: dict[str, Any] | None = None,
    weights: dict[str, float] | None = None,
    depths: tuple[int, ...] = (1, 2),
    dimensions: tuple[int, ...] = (8,),
    begin_from: Path | None = None,
    **train: Any,
) -> DistillConfig:
    """Twenty steps of eight rows, saved every five; a second of work."""
    settings: dict[str, Any] = {
        "steps": 20,
        "batch_size": 8,
        "log_steps": 1,
        "evaluations": 2,
        "save_seconds": None,
        "save_steps": 5,
        "precision": "fp32",
        "optim": OptimConfig(optimizer="adamw", lr=3e-3, beta2=0.98, warmup=0.1),
    }
    cut = {"length": 32, "pairs": "none", "mask_rate": 0.0, "short_rate": 1.0}
    return DistillConfig(
        teacher=str(teacher),
        model=small_config(**{"vocab_size": 400, "num_layers": 2, "embedding_normalize": True, **(model or {})}),
        stream=StreamConfig(**{**cut, **(stream or {})}),
        depths=depths,
        dimensions=dimensions,
        weights=LossWeights(**(weights or {})),
        begin_from=None if begin_from is None else str(begin_from),
        held_out_rows=32,
        train=TrainConfig(**{**settings, **train}),
    )


def distill_here(
    corpus: Corpus, out: Path, config: DistillConfig, *, rated: RatedPairs | None = None, **settings: Any
) -> RunResult:
    """Run in this process; faults as in `tests.faults.run_pretraining`, and what `distill` takes."""
    own = {name: settings.pop(name) for name in ("resume", "on_step", "on_message") if name in settings}
    with (
        mock.patch("litebert.distillation.job.Distillation", faulty(settings, Distillation)),
        mock.patch("litebert.training.run.measure_rate", return_value=1e9),
    ):
        return distill(corpus, out, config, rated=rated, **own)


def begin(corpus: Corpus, config: DistillConfig, rated: RatedPairs | None = None) -> Distillation:
    """A job before its first step."""
    job = Distillation(corpus, config, rated)
    job.setup(World(device=torch.device("cpu")), config, fresh=True, on_message=lambda message: None)
    return job
