"""A pretraining run and its folder: begun, gone on with, finished.

RUN/run.json       what the run is: configuration, corpus, machine
RUN/metrics.jsonl  what happened, line by line
RUN/checkpoints/   the last few states, and the best
RUN/model/         the encoder, once the run is finished
"""

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from litebert import __version__
from litebert.config import explain
from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
from litebert.corpus.guessing import Guessers
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.folders import MANIFEST, PARTIAL, hash_file, lock_folder, read_json, write_json
from litebert.model import kernels
from litebert.model.cost import count_encoder_parameters
from litebert.model.headstart import give_head_start
from litebert.model.model import Model
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.evaluation import held_out_batches
from litebert.pretraining.job import Pretraining
from litebert.runtime import describe_machine
from litebert.training.distributed import World, join_world
from litebert.training.hardware import choose_precision, measure_rate
from litebert.training.interruption import watching_signals
from litebert.training.job import News, Outcome, num_pieces
from litebert.training.logbook import Logbook
from litebert.training.loop import Trainer
from litebert.training.state import CheckpointStore

__all__ = ["RUN", "count_frequencies", "identify", "parse_config", "pretrain", "read_run_config"]

RUN = "run.json"
_COUNTED_TOKENS = 10_000_000  # by the guessers
_COUNTED_AT_ONCE = 10_000_000

# What may change when a run goes on: where and how it is computed, not what.
_NOT_IDENTITY = {
    "parallel",
    "rows_at_once",
    "precision",
    "compiled",
    "recompute",
    "evaluations",
    "log_steps",
    "save_seconds",
    "save_steps",
    "keep",
}


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
    resume = resume or _was_restarted()
    with join_world() as world, watching_signals() as interruption:
        say = on_message if world.is_main else lambda words: None
        _check(corpus, config, world)
        config = _settle_precision(config, world)
        with _writing_to(out):
            lock = _open_folder(out, resume) if world.is_main else None
        try:
            store = CheckpointStore(out / "checkpoints", config.train.keep)
            if world.is_main:
                with _writing_to(out):
                    if not resume or not (out / RUN).exists():
                        _write_run(out, corpus, config, world)
                    store.clear_abandoned()
            world.wait()
            model = _make_model(corpus, config, fresh=not (resume and store.all()), say=say)
            trainer = _make_trainer(model, corpus, config, store, Logbook(out, world.is_main), world, clock)
            _begin(trainer, store, resume, say)
            outcome = trainer.run(interruption, on_step if world.is_main else None)
            trainer.book.close()
            if outcome.status == "finished" and world.is_main:
                newest = store.all()[-1].model
                tensors = Model.from_pretrained(newest).state_dict()
                trainer.job.write_model(out / "model", tensors, outcome.state)
            return outcome
        finally:
            if lock is not None:
                os.close(lock)


def read_run_config(folder: Path) -> PretrainConfig:
    """The configuration that a run was begun with."""
    if not (folder / RUN).is_file():
        raise FolderError(f"{folder} holds no run: it has no {RUN}; leave --resume away to begin one")
    content = read_json(folder / RUN)
    try:
        return parse_config(content.get("config", {}))
    except ValidationError as error:
        raise FolderError(f"{folder / RUN} is not of this version of litebert ({explain(error)})") from None


def parse_config(settings: dict[str, Any]) -> PretrainConfig:
    """A configuration from plain values, such as a JSON or TOML file gives; raises pydantic's `ValidationError`."""
    return PretrainConfig.model_validate_json(json.dumps(settings))


def count_frequencies(corpus: Corpus) -> Tensor:
    """How frequent each id is in the training text."""
    counts = np.ones(corpus.tokenizer.vocab_size)
    for shard in corpus.shards[TRAIN]:
        for begin in range(0, shard.tokens.size, _COUNTED_AT_ONCE):
            counts += np.bincount(shard.tokens[begin : begin + _COUNTED_AT_ONCE], minlength=len(counts))
    counts[sorted(corpus.tokenizer.reserved_ids)] = 1e-3
    return torch.from_numpy(counts / counts.sum()).float()


@contextlib.contextmanager
def _writing_to(out: Path) -> Iterator[None]:
    """Say in a sentence that a folder cannot be written to."""
    try:
        yield
    except OSError as error:
        raise LitebertError(f"cannot write to {out} ({error.strerror or error}): choose another --out") from error


def _open_folder(out: Path, resume: bool) -> int:
    """Take hold of the folder, and refuse one that holds something else."""
    out.mkdir(parents=True, exist_ok=True)
    lock = lock_folder(out, "run")
    try:
        begun = CheckpointStore(out / "checkpoints", 1).all()
        if begun and not resume:
            raise RequestError(
                f"{out} already holds a run at step {begun[-1].step:,}: go on with --resume, or choose another --out"
            )
        if not (out / RUN).exists() and any(path.name != RUN + PARTIAL for path in out.iterdir()):
            raise RequestError(f"{out} is not empty and holds no run: choose another --out")
    except BaseException:
        os.close(lock)
        raise
    return lock


def _write_run(out: Path, corpus: Corpus, config: PretrainConfig, world: World) -> None:
    """Say what this run is; a run that goes on keeps what was said."""
    write_json(
        out / RUN,
        {
            "format": 1,
            "kind": "litebert pretraining",
            "litebert": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe_machine() | {"device": str(world.device), "processes": world.size},
            "corpus": {
                "folder": str(corpus.folder),
                "train_tokens": corpus.num_tokens(TRAIN),
                "held_out_tokens": corpus.num_tokens(HELD_OUT),
                "sha256": hash_file(corpus.folder / MANIFEST),
            },
            "parameters": count_encoder_parameters(config.model),
            "baselines": _score_guessers(corpus, config),
            "config": config.model_dump(mode="json"),
        },
    )


def _score_guessers(corpus: Corpus, config: PretrainConfig) -> dict[str, float]:
    """What counting alone gets right on the text that the run is scored on."""
    scores = Guessers.count(corpus, _COUNTED_TOKENS).score(
        held_out_batches(corpus, config.stream, config.held_out_rows)
    )
    return {"num_words": scores.num_words, "unigram": scores.unigram, "ngram": scores.copying}


def identify(config: PretrainConfig) -> dict[str, Any]:
    """What makes a run what it is, as plain values; not where and how it is computed."""
    identity = config.model_dump(mode="json")
    identity["train"] = {name: value for name, value in identity["train"].items() if name not in _NOT_IDENTITY}
    return identity


def _check(corpus: Corpus, config: PretrainConfig, world: World) -> None:
    """Refuse what cannot work before anything is written."""
    if config.model.vocab_size != corpus.tokenizer.vocab_size:
        raise RequestError(
            f"the model has a vocabulary of {config.model.vocab_size:,}, the corpus one of "
            f"{corpus.tokenizer.vocab_size:,}: they must be the same"
        )
    for stage in range(len(config.train.stages)):
        num_pieces(config.train.batch_size_of(stage), world.size, config.train.rows_at_once)


def _settle_precision(config: PretrainConfig, world: World) -> PretrainConfig:
    """Choose fp32 or bf16 where nothing is said; the main process chooses for all, and run.json keeps it."""
    chosen = choose_precision(config.train.precision, world.device) if world.is_main else "fp32"
    (is_half,) = world.add([float(chosen == "bf16")])
    train = config.train.model_copy(update={"precision": "bf16" if is_half else "fp32"})
    return config.model_copy(update={"train": train})


def _make_trainer(
    model: Model,
    corpus: Corpus,
    config: PretrainConfig,
    store: CheckpointStore,
    book: Logbook,
    world: World,
    clock: Callable[[], float],
) -> Trainer:
    kernels.use_compiled(config.train.compiled)
    identity = identify(config) | {"corpus": hash_file(corpus.folder / MANIFEST)}
    job = Pretraining(model, corpus, config, world)
    rate = world.size * measure_rate(config.model, config.train.precision, world.device)
    return Trainer(job, config.train, identity, store, book, world, hardware_rate=rate, clock=clock)


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


def _begin(trainer: Trainer, store: CheckpointStore, resume: bool, say: Callable[[str], None]) -> None:
    """Go on from the newest whole checkpoint, or begin."""
    processes = "1 process" if trainer.world.size == 1 else f"{trainer.world.size} processes"
    damages: list[str] = []
    checkpoint = trainer.find_checkpoint(damages.append) if resume else None
    for words in damages:
        say(f"passed over a damaged checkpoint: {words}")
    if checkpoint is None:
        if resume and not _was_restarted():
            raise RequestError(
                f"{store.folder} holds no whole checkpoint: leave --resume away, or choose another --out"
            )
        trainer.book.keep_until(-1)
        trainer.tell("began", processes)
        return
    trainer.load(checkpoint)
    trainer.book.keep_until(checkpoint.step)
    trainer.world.wait()
    for words in damages:
        trainer.tell("damaged", words)
    words = f"went on from step {checkpoint.step:,} with {processes}"
    trainer.tell("resumed", words)
    say(words)


def _was_restarted() -> bool:
    """Whether torchrun started this process again after one was lost."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
