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
from litebert.training.job import News, Outcome
from litebert.training.logbook import Logbook
from litebert.training.loop import Trainer
from litebert.training.state import CheckpointStore

__all__ = ["RUN", "count_frequencies", "parse_config", "pretrain", "read_run_config"]

RUN = "run.json"
_COUNTED_TOKENS = 10_000_000

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
    resume = resume or int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
    with join_world() as world, watching_signals() as interruption:
        say = on_message if world.is_main else lambda words: None
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
            trainer = _make_trainer(corpus, config, store, Logbook(out, world.is_main), world, clock)
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
    """How frequent each id is in the training text (the first 10 million tokens of it)."""
    counts = np.ones(corpus.tokenizer.vocab_size)
    left = _COUNTED_TOKENS
    for shard in corpus.shards[TRAIN]:
        counts += np.bincount(shard.tokens[:left], minlength=len(counts))
        left -= min(left, shard.tokens.size)
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


def _make_trainer(
    corpus: Corpus,
    config: PretrainConfig,
    store: CheckpointStore,
    book: Logbook,
    world: World,
    clock: Callable[[], float],
) -> Trainer:
    train = config.train.model_copy(update={"precision": choose_precision(config.train.precision, world.device)})
    if train.compiled:
        kernels.use_compiled(True)
    identity = config.model_dump(mode="json") | {"corpus": hash_file(corpus.folder / MANIFEST)}
    identity["train"] = {name: value for name, value in identity["train"].items() if name not in _NOT_IDENTITY}
    job = Pretraining(_make_model(corpus, config), corpus, config, world)
    rate = measure_rate(config.model, train.precision, world.device)
    return Trainer(job, train, identity, store, book, world, hardware_rate=rate, clock=clock)


def _make_model(corpus: Corpus, config: PretrainConfig) -> Model:
    """Fresh weights, the same in every process, or those of a folder."""
    if config.model.vocab_size != corpus.tokenizer.vocab_size:
        raise RequestError(
            f"the model has a vocabulary of {config.model.vocab_size:,}, the corpus one of "
            f"{corpus.tokenizer.vocab_size:,}: they must be the same"
        )
    torch.manual_seed(config.train.seed)
    if config.begin_from is not None:
        model = Model.from_pretrained(config.begin_from, config.head)
        if model.config != config.model:
            raise RequestError(f"{config.begin_from} has another shape than the run's model: name it as the model, too")
        return model
    model = Model(config.model, config.head)
    if config.head_start:
        give_head_start(model, count_frequencies(corpus))
    return model


def _begin(trainer: Trainer, store: CheckpointStore, resume: bool, say: Callable[[str], None]) -> None:
    """Go on from the newest whole checkpoint, or begin."""
    restarted = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0
    damages: list[str] = []
    found = store.newest(damages.append) if resume and trainer.world.is_main else None
    (step,) = trainer.world.add([float(found.step) if found else -1.0 if trainer.world.is_main else 0.0])
    checkpoint = next((checkpoint for checkpoint in store.all() if checkpoint.step == step), None)
    for words in damages:
        say(f"passed over a damaged checkpoint: {words}")
    if checkpoint is None:
        if resume and not restarted:
            raise RequestError(
                f"{store.folder} holds no whole checkpoint: leave --resume away, or choose another --out"
            )
        trainer.book.keep_until(-1)
        trainer.tell("began", f"{trainer.world.size} process{'es' if trainer.world.size > 1 else ''}")
        return
    trainer.load(checkpoint)
    trainer.book.keep_until(checkpoint.step)
    trainer.world.wait()
    for words in damages:
        trainer.tell("damaged", words)
    words = f"went on from step {checkpoint.step:,} with {trainer.world.size} process"
    trainer.tell("resumed", words + ("es" if trainer.world.size > 1 else ""))
    say(words + ("es" if trainer.world.size > 1 else ""))
