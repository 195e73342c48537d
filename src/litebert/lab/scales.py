"""Scales: the paper's shapes, steps and text at the size of a machine.

An experiment names presets, such as albert-base. A scale says what becomes of their widths and depths, in which order
they stay, and how a cell is trained. `paper` changes nothing: it is the paper's run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from litebert.config import ModelConfig
from litebert.corpus.stream import StreamConfig
from litebert.errors import RequestError
from litebert.presets import preset_config
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.recipes import paper_run, rows_that_fit
from litebert.training.config import TrainConfig
from litebert.training.optim import OptimConfig

__all__ = ["SCALES", "Scale", "find_scale"]

_PAPER_LAYERS = (1, 3, 6, 12, 24, 48)
_PAPER_HIDDEN = (768, 1024, 2048, 4096, 6144)
_PAPER_WORDS = (64, 128, 256)


@dataclass(frozen=True)
class Scale:
    """What becomes of the paper's sizes, and how long, on how much, with which rate a cell is trained."""

    about: str
    layers: Mapping[int, int]
    hidden: Mapping[int, int]
    words: Mapping[int, int]
    """Sizes of the word vectors; one that equals the hidden size stays equal to it."""
    head_size: int
    vocab_size: int
    """Of a tokenizer that is trained for the lab; a corpus that is given has its own."""
    length: int
    batch_size: int
    steps: int
    lr: float
    """Of albert-base; wider models have less, as one over their width."""
    scored_rows: int
    """Rows of held-out text that a finished cell is measured on."""
    probed_pairs: int
    """Pairs of segments from which a probe learns about sentences."""
    labels: int
    """Examples of a task from which a linear model learns."""
    shrinks: bool = field(default=True)

    def shape(self, preset: str, vocab_size: int) -> ModelConfig:
        """A preset at this scale. Dropout is none unless a cell sets it, so that all cells run the same way."""
        config = preset_config(preset).updated(vocab_size=vocab_size)
        if not self.shrinks:
            return config
        hidden = _take(self.hidden, config.hidden_size, preset)
        is_square = config.embedding_size == config.hidden_size
        return config.updated(
            num_layers=_take(self.layers, config.num_layers, preset),
            hidden_size=hidden,
            num_heads=hidden // self.head_size,
            intermediate_size=4 * hidden,
            embedding_size=hidden if is_square else _take(self.words, config.embedding_size, preset),
            max_positions=max(self.length, 128),
            hidden_dropout=0.0,
            attention_dropout=0.0,
            initializer_range=0.4 / hidden**0.5,
        )

    def run(self, model: ModelConfig) -> PretrainConfig:
        """How a cell is trained, unless it says otherwise: full depth from the first step, the paper's sentence task.

        Below the paper's scale there are too few steps to learn what counting knows, so runs have a head start.
        """
        if not self.shrinks:
            return paper_run(model, self.steps, self.batch_size, self.length)
        return PretrainConfig(
            model=model,
            stream=StreamConfig(length=self.length, pairs="sop"),
            train=TrainConfig(
                steps=self.steps,
                batch_size=self.batch_size,
                micro_batch_size=rows_that_fit(model, self.length),
                precision="fp32",  # the same on every machine
                optim=OptimConfig(optimizer="adamw", lr=self.lr * self.hidden[768] / model.hidden_size, warmup=0.1),
                evaluations=8,
                keep=1,
            ),
            head_start=True,
            held_out_rows=128,
        )


def _take(sizes: Mapping[int, int], size: int, preset: str) -> int:
    if size not in sizes:
        raise RequestError(f"no scale but paper has a size for {preset}: choose --scale paper, or another preset")
    return sizes[size]


def _map(paper: tuple[int, ...], *sizes: int) -> dict[int, int]:
    return dict(zip(paper, sizes, strict=True))


SCALES: dict[str, Scale] = {
    "nano": Scale(
        "a minute or two a cell on one core",
        _map(_PAPER_LAYERS, 1, 2, 3, 4, 6, 8),
        _map(_PAPER_HIDDEN, 96, 128, 160, 224, 288),
        _map(_PAPER_WORDS, 16, 32, 64),
        head_size=32,
        vocab_size=4000,
        length=256,
        batch_size=4,
        steps=750,
        lr=2e-3,
        scored_rows=256,
        probed_pairs=3000,
        labels=4000,
    ),
    "mini": Scale(
        "a quarter of an hour a cell on two cores",
        _map(_PAPER_LAYERS, 1, 2, 3, 6, 12, 24),
        _map(_PAPER_HIDDEN, 192, 256, 384, 512, 640),
        _map(_PAPER_WORDS, 32, 64, 128),
        head_size=32,
        vocab_size=8000,
        length=256,
        batch_size=16,
        steps=4000,
        lr=1e-3,
        scored_rows=1024,
        probed_pairs=10_000,
        labels=8000,
    ),
    "small": Scale(
        "hours a cell on a large machine",
        _map(_PAPER_LAYERS, 1, 3, 6, 12, 24, 48),
        _map(_PAPER_HIDDEN, 384, 512, 768, 1024, 1536),
        _map(_PAPER_WORDS, 64, 128, 256),
        head_size=64,
        vocab_size=16_000,
        length=512,
        batch_size=64,
        steps=30_000,
        lr=5e-4,
        scored_rows=2048,
        probed_pairs=20_000,
        labels=20_000,
    ),
    "paper": Scale(
        "the paper's own: 125,000 steps of 4,096 rows, for a cluster",
        _map(_PAPER_LAYERS, *_PAPER_LAYERS),
        _map(_PAPER_HIDDEN, *_PAPER_HIDDEN),
        _map(_PAPER_WORDS, *_PAPER_WORDS),
        head_size=64,
        vocab_size=30_000,
        length=512,
        batch_size=4096,
        steps=125_000,
        lr=0.00176,
        scored_rows=4096,
        probed_pairs=50_000,
        labels=100_000,
        shrinks=False,
    ),
}


def find_scale(name: str) -> Scale:
    """A scale by its name."""
    if name not in SCALES:
        raise RequestError(f"there is no scale {name!r}: choose from {', '.join(SCALES)}")
    return SCALES[name]
