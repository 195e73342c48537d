"""A pretraining run: a corpus, a configuration, and weights to begin with; `litebert.training.run` does the rest."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
from litebert.errors import RequestError
from litebert.folders import MANIFEST, hash_file
from litebert.model.model import Model
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.evaluation import held_out_batches
from litebert.pretraining.guessers import Guessers
from litebert.pretraining.headstart import give_head_start
from litebert.pretraining.job import Pretraining
from litebert.training.distributed import World
from litebert.training.job import News, Outcome
from litebert.training.run import Undertaking, carry_out

__all__ = ["count_frequencies", "pretrain"]

_COUNTED_TOKENS = 10_000_000  # by the guessers
_COUNTED_AT_ONCE = 10_000_000


def pretrain(
    corpus: Corpus,
    out: Path,
    config: PretrainConfig,
    *,
    resume: bool = False,
    on_step: Callable[[News], None] | None = None,
    on_message: Callable[[str], None] = lambda words: None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Train an encoder on a corpus, into a run folder; with `resume`, from its newest whole checkpoint on.

    Under torchrun every process calls this alike. After an elastic restart it goes on by itself.
    """
    if config.model.vocab_size != corpus.tokenizer.vocab_size:
        raise RequestError(
            f"the model has a vocabulary of {config.model.vocab_size:,}, the corpus one of "
            f"{corpus.tokenizer.vocab_size:,}: they must be the same"
        )
    undertaking = Undertaking(
        kind="pretraining",
        config=config,
        data={"corpus": hash_file(corpus.folder / MANIFEST)},
        make_job=functools.partial(_make_job, corpus),
        describe=functools.partial(_describe, corpus),
    )
    return carry_out(undertaking, out, resume=resume, on_step=on_step, on_message=on_message, clock=clock)


def count_frequencies(corpus: Corpus) -> Tensor:
    """How frequent each id is in the training text."""
    counts = np.ones(corpus.tokenizer.vocab_size)
    for shard in corpus.shards[TRAIN]:
        for begin in range(0, shard.tokens.size, _COUNTED_AT_ONCE):
            counts += np.bincount(shard.tokens[begin : begin + _COUNTED_AT_ONCE], minlength=len(counts))
    counts[sorted(corpus.tokenizer.reserved_ids)] = 1e-3
    return torch.from_numpy(counts / counts.sum()).float()


def _describe(corpus: Corpus, config: PretrainConfig) -> dict[str, Any]:
    """The corpus, and what counting alone gets right on the text that the run is scored on."""
    scores = Guessers.count(corpus, _COUNTED_TOKENS).score(
        held_out_batches(corpus, config.stream, config.held_out_rows)
    )
    return {
        "corpus": {
            "folder": str(corpus.folder),
            "train_tokens": corpus.num_tokens(TRAIN),
            "held_out_tokens": corpus.num_tokens(HELD_OUT),
            "sha256": hash_file(corpus.folder / MANIFEST),
        },
        "baselines": {"num_words": scores.num_words, "unigram": scores.unigram, "ngram": scores.copying},
    }


def _make_job(
    corpus: Corpus, config: PretrainConfig, world: World, fresh: bool, say: Callable[[str], None]
) -> Pretraining:
    return Pretraining(_make_model(corpus, config, fresh, say), corpus, config, world)


def _make_model(corpus: Corpus, config: PretrainConfig, fresh: bool, say: Callable[[str], None]) -> Model:
    """The weights to begin with, the same in every process: drawn, or those of a folder.

    A run that goes on (not `fresh`) has its weights in a checkpoint, and needs that folder no more.
    """
    torch.manual_seed(config.train.seed)
    if config.begin_from is not None and fresh:
        model = Model.from_pretrained(config.begin_from, config.head)
        if model.config.updated(initializer_range=config.model.initializer_range) != config.model:
            raise RequestError(f"{config.begin_from} has another shape than the run's model: leave out what changes it")
        if model.fresh_tensors:
            say(f"{config.begin_from} has no {', '.join(model.fresh_tensors)}: drawn afresh")
        return model
    model = Model(config.model, config.head)
    if config.head_start and fresh:
        give_head_start(model, count_frequencies(corpus))
    return model
