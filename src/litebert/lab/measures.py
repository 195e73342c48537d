"""What is measured of a trained cell: masked tokens, what its states know of sentences, tasks, how layers move states.

All cells of a seed are measured on the same text and examples, so that they can be compared pair by pair.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from litebert.baselines.vectors import EncoderVectors, make_frozen
from litebert.batch import NO_LABEL, Batch
from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
from litebert.corpus.examples import Pairs
from litebert.corpus.stream import BatchStream, StreamConfig
from litebert.errors import RequestError
from litebert.inference.load import load
from litebert.lab.scales import Scale
from litebert.model.model import Model
from litebert.pretraining.evaluation import evaluate_held_out, held_out_batches
from litebert.tasks.kinds import kind_of
from litebert.tasks.metrics import compute_metrics
from litebert.tasks.readers.sources import OFFICIAL, OwnData, read_official, read_own
from litebert.tasks.task import Dataset, Predictions

__all__ = ["Measured", "measure_layers", "measure_masked", "measure_probes", "measure_tasks", "read_task"]

_ROWS = 16  # that a model reads together
_LAYER_ROWS = 64  # of held-out text, for the moves of states
_MOST_SCORED = 2000  # examples of a task
_PENALTY = 0.01  # C of a probe, on states of deviation 1


@dataclass
class Measured:
    """Numbers by name, and rows of numbers by name (over steps or layers)."""

    metrics: dict[str, float] = field(default_factory=dict)
    series: dict[str, list[list[float]]] = field(default_factory=dict)


# --- on text --------------------------------------------------------------------------------------------------------


def measure_masked(model: Model, corpus: Corpus, stream: StreamConfig, scale: Scale) -> Measured:
    """Masked tokens of held-out text, and the sentence task that the model was trained for."""
    found = evaluate_held_out(model, held_out_batches(corpus, stream, scale.scored_rows))
    names = {"mlm_accuracy": "mlm_accuracy", "mlm_loss": "mlm_loss", "sop_accuracy": "sentence_accuracy"}
    return Measured({names[name]: value for name, value in found.items() if name in names})


def measure_probes(model: Model, corpus: Corpus, stream: StreamConfig, scale: Scale) -> Measured:
    """What the first token's final state tells about next sentences and about their order: a linear model on it.

    The same for every cell, whatever it was trained for: the probe learns from pairs of training text, and is scored on
    pairs of held-out text. Chance is 50 %.
    """
    from litebert.baselines.linear import LinearClassifier

    metrics = {}
    pairs: Pairs
    for pairs in ("nsp", "sop"):
        asked = stream.model_copy(update={"pairs": pairs, "packing": False})
        states, labels = _read_pairs(model, corpus, asked, TRAIN, scale.probed_pairs)
        tried, truth = _read_pairs(model, corpus, asked, HELD_OUT, scale.probed_pairs)
        mean, deviation = states.mean(0), states.std(0) + 1e-6
        probe = LinearClassifier(_PENALTY).fit((states - mean) / deviation, labels)
        answers = probe.predict((tried - mean) / deviation)
        metrics[f"{pairs}_probe"] = statistics.mean(float(a == b) for a, b in zip(answers, truth, strict=True))
    return Measured(metrics)


@torch.no_grad()
def _read_pairs(
    model: Model, corpus: Corpus, stream: StreamConfig, split: str, count: int
) -> tuple[NDArray[np.float32], list[int]]:
    """First states, (pairs, H), and labels of so many pairs of segments, or of all there are."""
    states: list[NDArray[np.float32]] = []
    labels: list[int] = []
    for batch in BatchStream(corpus, stream, split).epoch(_ROWS):
        assert batch.sentence_labels is not None
        asked = batch.sentence_labels != NO_LABEL
        hidden = _encode(model, batch)[:, 0]
        states.append(hidden[asked].float().numpy())
        labels += batch.sentence_labels[asked].tolist()
        if len(labels) >= count:
            break
    if len({*labels}) < 2:
        raise RequestError("the corpus has too few documents of several sentences for a sentence task: give it more")
    return np.concatenate(states)[:count], labels[:count]


def _encode(model: Model, batch: Batch) -> torch.Tensor:
    """The last hidden states, (batch, tokens, H)."""
    return model.encoder(  # type: ignore[no-any-return]
        batch.input_ids, batch.attention_mask, batch.token_type_ids, sequence_ids=batch.sequence_ids
    )


@torch.no_grad()
def measure_layers(model: Model, corpus: Corpus, stream: StreamConfig) -> Measured:
    """The paper's Figure 1: how far each layer moves a state, as distance and as angle, on average over tokens.

    The variation (deviation over mean, between layers) says in one number how evenly they move it.
    """
    asked = stream.model_copy(update={"packing": False})
    moves: list[torch.Tensor] = []
    for batch in islice(BatchStream(corpus, asked, HELD_OUT).epoch(_ROWS), _LAYER_ROWS // _ROWS):
        inputs = (batch.input_ids, batch.attention_mask, batch.token_type_ids)
        before = model.encoder.embeddings(batch.input_ids, batch.token_type_ids, None)
        kept = batch.attention_mask.bool() if batch.attention_mask is not None else torch.ones_like(batch.input_ids) > 0
        layers = []
        for after in model.encoder.passes(*inputs):
            distance = (after - before).norm(dim=-1)[kept]
            cosine = torch.cosine_similarity(after, before, dim=-1)[kept].clamp(-1, 1)
            layers.append(torch.stack([distance.mean(), torch.rad2deg(cosine.arccos()).mean()]))
            before = after
        moves.append(torch.stack(layers))  # (layers, 2)
    mean = torch.stack(moves).mean(0).double()
    metrics, series = {}, {}
    for column, name in enumerate(("distance", "angle")):
        values = mean[:, column].tolist()
        series[name] = [[float(layer), value] for layer, value in enumerate(values, start=1)]
        metrics[f"{name}_variation"] = statistics.pstdev(values) / max(statistics.mean(values), 1e-12)
        metrics[f"last_{name}"] = values[-1]
    return Measured(metrics, series)


# --- on tasks -------------------------------------------------------------------------------------------------------


def read_task(entry: str) -> tuple[str, Dataset]:
    """A task as `NAME=FOLDER` of official files, or as a file of your own with the columns text and label."""
    name, _, folder = entry.partition("=")
    if name in OFFICIAL and folder:
        data = read_official(name, Path(folder), ["train", "dev"])
    elif Path(entry).is_file():
        name, data = Path(entry).stem, read_own(OwnData(Path(entry)))
    elif Path(entry).suffix and "=" not in entry:
        raise RequestError(f"--task {entry}: there is no such file")
    else:
        raise RequestError(f"--task {entry}: write sst-2=FOLDER for official files, or name a file with text and label")
    kind = kind_of(data.task)
    if kind.answer_type not in ("label", "labels", "number"):
        raise RequestError(f"--task {entry}: tasks with labels or numbers can be measured from frozen states, not this")
    return name, data


def measure_tasks(folder: Path, tasks: Sequence[str], scale: Scale, seed: int) -> Measured:
    """A linear model on the encoder's frozen vectors, for each task, by the task's first metric; and their mean."""
    vectors = EncoderVectors.of(load(folder), words=False)  # the states are what pretraining taught
    metrics: dict[str, float] = {}
    for entry in tasks:
        name, data = read_task(entry)
        kind, scored = kind_of(data.task), list(data.splits["dev"])[:_MOST_SCORED]
        train = list(data.splits["train"])
        order = np.random.default_rng(seed).permutation(len(train))[: scale.labels]
        train = [train[index] for index in order]
        model = make_frozen(vectors, kind.answer_type, words=False, seed=seed)
        model.fit([kind.inputs(one) for one in train], [kind.baseline_target(one) for one in train])
        answers = model.predict([kind.inputs(one) for one in scored])
        found = compute_metrics(data.task, scored, Predictions(tuple(map(kind.read_baseline, answers))))
        metrics[f"task_{name}"] = found[data.task.metrics[0]]
    known = [value for value in metrics.values() if math.isfinite(value)]
    return Measured(metrics | ({"tasks": statistics.mean(known)} if known else {}))
