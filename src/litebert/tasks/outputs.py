"""What a model says about examples, and the answers that follow from it.

`predict` runs the model; `Outputs` keep its scores example by example, so that those of several models can be averaged;
`choose_answers` turns them into plain answers with probabilities.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from litebert.errors import RequestError
from litebert.model.model import Model, ModelOutput
from litebert.tasks.encoding import Encoded
from litebert.tasks.rows import pack_items
from litebert.tasks.spans import Prediction, WindowScores, average_predictions, combine_all, decode_beam, decode_plain
from litebert.tasks.task import Example, QuestionExample, Task
from litebert.tasks.windows import WindowConfig

__all__ = ["Answers", "Outputs", "average", "choose_answers", "predict"]

_TOKENS_AT_ONCE = 8192
_ROUNDED = 5  # digits of probabilities in files
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Outputs:
    """Scores for each example: (classes,), (1,), (words, tags) or (options,); or candidates for an answer."""

    scores: list[Scores] = field(default_factory=list)
    spans: list[Prediction] = field(default_factory=list)


@dataclass(frozen=True)
class Answers:
    """One answer for each example, what speaks for it, and for questions the odds that there is none."""

    answers: list[Any]
    details: list[dict[str, Any]]
    null_odds: list[float] | None = None


@torch.inference_mode()
def predict(
    model: Model,
    task: Task,
    examples: Sequence[Example],
    encoded: Encoded,
    windows: WindowConfig | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Outputs:
    """Run a model on all rows, in batches of like length, and put the rows of each example together."""
    rows = encoded.rows
    was_training = model.training
    model.eval()
    found: list[Any] = [None] * rows.num_items
    device = next(model.parameters()).device
    done = 0
    try:
        for group in pack_items(rows.lengths(), _TOKENS_AT_ONCE, rows.options):
            batch = rows.collate(group, model.config.pad_token_id).to(device)
            inputs = {name: value for name, value in batch.inputs().items() if name != "start_positions"}
            output: ModelOutput = model(**inputs)
            for item, value in zip(group.tolist(), _read_output(output, task, encoded, group, windows), strict=True):
                found[item] = value
            done += len(group)
            on_progress(done)
    finally:
        model.train(was_training)
    if task.kind == "questions":
        questions = [example for example in examples if isinstance(example, QuestionExample)]
        scores: list[WindowScores] = found
        return Outputs(spans=combine_all(questions, encoded.windows, scores, windows or WindowConfig()))
    if task.kind == "tagging":
        return Outputs(_join_rows(found, rows.examples, len(examples), len(task.labels)))
    return Outputs(found)


def _read_output(
    output: ModelOutput, task: Task, encoded: Encoded, group: NDArray[np.int64], windows: WindowConfig | None
) -> list[Any]:
    """What is kept of a batch, item by item."""
    if task.kind == "questions":
        shown = [encoded.windows[item] for item in group.tolist()]
        config = windows or WindowConfig()
        if output.beam is not None:
            assert output.answerable_logits is not None
            return list(decode_beam(shown, output.beam, output.answerable_logits, config))
        assert output.start_logits is not None
        assert output.end_logits is not None
        return list(decode_plain(shown, output.start_logits, output.end_logits, config))
    assert output.logits is not None
    logits = output.logits.float().cpu().numpy()
    if task.kind == "tagging":
        return [logits[row, encoded.words[item]] for row, item in enumerate(group.tolist())]
    if task.kind == "choice":
        assert encoded.rows.options is not None
        return [logits[row, : encoded.rows.options[item]] for row, item in enumerate(group.tolist())]
    return list(logits)


def _join_rows(found: list[Scores], owners: NDArray[np.int64], num_examples: int, num_labels: int) -> list[Scores]:
    """The words of a long sentence, whose rows follow each other."""
    parts: list[list[Scores]] = [[] for _ in range(num_examples)]
    for owner, scores in zip(owners.tolist(), found, strict=True):
        parts[owner].append(scores)
    empty = np.zeros((0, num_labels), np.float32)
    return [np.concatenate(part) if part else empty for part in parts]


def average(task: Task, members: Sequence[Outputs]) -> Outputs:
    """What an ensemble says: the mean of its members' probabilities, of their scores, or of their spans."""
    if not members:
        raise RequestError("an ensemble needs one member at least")
    if task.kind == "questions":
        return Outputs(spans=[average_predictions(spans) for spans in zip(*(m.spans for m in members), strict=True)])
    if task.kind == "regression":
        mean = [np.mean(scores, axis=0) for scores in zip(*(m.scores for m in members), strict=True)]
        return Outputs([np.asarray(scores, np.float32) for scores in mean])
    means = [
        np.mean([_probabilities(task, scores) for scores in group], axis=0)
        for group in zip(*(m.scores for m in members), strict=True)
    ]
    return Outputs([_scores_of(task, np.clip(mean, 1e-12, 1 - 1e-12)) for mean in means])


def _probabilities(task: Task, scores: Scores) -> NDArray[np.float64]:
    values = scores.astype(np.float64)
    if task.kind == "multi-label":
        return np.asarray(0.5 * (1 + np.tanh(values / 2)))
    values = np.exp(values - values.max(-1, keepdims=True, initial=-math.inf))
    return np.asarray(values / values.sum(-1, keepdims=True))


def _scores_of(task: Task, probabilities: NDArray[np.float64]) -> Scores:
    """Scores that have these probabilities, so that an ensemble's outputs are like a model's."""
    logits = np.log(probabilities)
    return (logits - np.log1p(-probabilities) if task.kind == "multi-label" else logits).astype(np.float32)


def choose_answers(task: Task, outputs: Outputs, threshold: float | None = None) -> Answers:
    """The answers of a model or an ensemble; above the threshold of `null_odds`, a question has none."""
    if task.kind == "questions":
        return _answer_questions(outputs.spans, threshold if task.has_unanswerable else None)
    if task.kind == "regression":
        return Answers([float(scores[0]) for scores in outputs.scores], [{} for _ in outputs.scores])
    answers: list[Any] = []
    details: list[dict[str, Any]] = []
    for scores in outputs.scores:
        shares = _probabilities(task, scores)
        best = shares.argmax(-1) if shares.size else np.zeros(shares.shape[:-1], np.int64)
        match task.kind:
            case "multi-label":
                answers.append(tuple(name for name, share in zip(task.labels, shares, strict=True) if share > 0.5))
            case "tagging":
                answers.append(tuple(task.labels[place] for place in best.tolist()))
            case "choice":
                answers.append(int(best))
            case _:
                answers.append(task.labels[int(best)])
        details.append(_describe(task, shares))
    return Answers(answers, details)


def _describe(task: Task, shares: NDArray[np.float64]) -> dict[str, Any]:
    """Probabilities by name; of tags, that of each word's tag."""
    if task.kind == "tagging":
        return {"probabilities": [round(float(row.max()), _ROUNDED) for row in shares]}
    if task.kind == "choice":
        return {"probabilities": [round(share, _ROUNDED) for share in shares.tolist()]}
    return {
        "probabilities": {
            name: round(share, _ROUNDED) for name, share in zip(task.labels, shares.tolist(), strict=True)
        }
    }


def _answer_questions(spans: Sequence[Prediction], threshold: float | None) -> Answers:
    details = []
    for prediction in spans:
        nbest = [
            {"text": c.text, "begin": c.begin, "end": c.end, "probability": round(c.probability, _ROUNDED)}
            for c in prediction.candidates
        ]
        details.append({"null_odds": prediction.null_odds, "nbest": nbest})
    answers = [prediction.answer(threshold) for prediction in spans]
    return Answers(answers, details, [prediction.null_odds for prediction in spans])
