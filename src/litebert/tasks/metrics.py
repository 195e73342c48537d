"""`score_answers`: how good answers are, by the metrics that a task is known for.

Answers are plain values beside their examples: a name, several names, a number, a tag for each word, a text or the
index of an option. Scores are shares from 0 to 1 (correlations from -1 to 1), never percent.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from litebert.errors import RequestError
from litebert.tasks.squad_metrics import find_best_threshold, score_questions
from litebert.tasks.task import ChoiceExample, Example, QuestionExample, TaggedExample, Task

__all__ = ["METRICS", "find_chunks", "gold_answer", "majority_score", "score_answers"]

METRICS = {
    "accuracy": "share of right answers; of several labels: all of them right; of tags: per word",
    "f1": "harmonic mean of precision and recall of the last label; for questions: of the words of an answer",
    "macro_f1": "mean of the F1 of each label that occurs",
    "micro_f1": "F1 of all labels taken together",
    "matthews": "Matthews correlation of answers and labels, 0 for answers that are all the same",
    "pearson": "linear correlation with the scores, 0 for answers that are all the same",
    "spearman": "correlation of the ranks, 0 for answers that are all the same",
    "mse": "mean squared error, not a share: the lower the better",
    "mae": "mean absolute error, not a share: the lower the better",
    "entity_f1": "F1 of the names found in a text: right only with both ends and the type right (CoNLL)",
    "entity_precision": "share of the names found that are right",
    "entity_recall": "share of the names there are that were found",
    "exact": "share of answers that equal one of the people's, but for case, punctuation and articles (SQuAD)",
    "total": "number of questions",
    "HasAns_exact": "exact, of the questions that have an answer",
    "HasAns_f1": "f1, of the questions that have an answer",
    "HasAns_total": "number of questions that have an answer",
    "NoAns_exact": "exact, of the questions that have none",
    "NoAns_f1": "f1, of the questions that have none",
    "NoAns_total": "number of questions that have no answer",
    "best_exact": "exact, if the best threshold decided which questions have no answer",
    "best_exact_thresh": "the threshold of best_exact: greater null odds mean that there is no answer",
    "best_f1": "f1, if the best threshold decided which questions have no answer",
    "best_f1_thresh": "the threshold of best_f1: greater null odds mean that there is no answer",
    "threshold": "null odds above which the model says that there is no answer, tuned on the development set",
    "accuracy_middle": "accuracy of the group `middle` (RACE); every other group has its own likewise",
    "accuracy_high": "accuracy of the group `high` (RACE)",
}
"""Every metric and what it says."""

_OF_PARTS = ("best_", "HasAns_", "NoAns_", "accuracy_")
_BEGINS = frozenset("BSU")
_ENDS = frozenset("ELSU")
_PREFIXES = frozenset("BIEMSLU")


def score_answers(
    task: Task, examples: Sequence[Example], answers: Sequence[Any], null_odds: Sequence[float] | None = None
) -> dict[str, float]:
    """Score answers by all metrics of the task's kind; `task.metrics` must be among them.

    With `null_odds`, questions that may have no answer also get the best threshold (`find_best_threshold`). A metric of
    what is not there (odds, a group, questions without an answer) is left out, unless it is the one that decides.
    Answers to questions count as given: "" says that there is no answer.
    """
    golds = _check(examples, answers)
    match task.kind:
        case "classification":
            scores = _score_labels(task.labels, golds, answers)
        case "multi-label":
            scores = _score_label_sets(golds, answers)
        case "regression":
            scores = _score_numbers(golds, answers)
        case "tagging":
            scores = _score_tags(examples, golds, answers)
        case "choice":
            scores = _score_choices(examples, golds, answers)
        case "questions":
            questions = [example for example in examples if isinstance(example, QuestionExample)]
            scores = score_questions(questions, answers, has_unanswerable=task.has_unanswerable)
            if task.has_unanswerable and null_odds is not None:
                scores |= find_best_threshold(questions, answers, null_odds)
    for name in task.metrics:
        if name not in scores and (name == task.score or not name.startswith(_OF_PARTS)):
            known = ", ".join(scores)
            raise RequestError(f"{name!r} is no metric of these {task.kind} examples: choose from {known}")
    return scores


def majority_score(task: Task, examples_train: Sequence[Example], examples_dev: Sequence[Example]) -> dict[str, float]:
    """What the one answer that is most often right in training gets on other examples.

    That is the most frequent label, set of labels, tag or index (of equally frequent ones the first of the task's),
    the mean score, or "there is no answer". A run that scores no better has failed to train.
    """
    if not examples_train:
        raise RequestError("there is no training example to take the most frequent answer from")
    golds = [_known_gold(example) for example in examples_train]
    if task.kind == "questions":
        return score_answers(task, examples_dev, [""] * len(examples_dev), [0.0] * len(examples_dev))
    if task.kind == "regression":
        return score_answers(task, examples_dev, [math.fsum(golds) / len(golds)] * len(examples_dev))
    if task.kind == "tagging":
        tag = _most_frequent([tag for tags in golds for tag in tags], task.labels)
        lengths = [len(example.words) for example in examples_dev if isinstance(example, TaggedExample)]
        return score_answers(task, examples_dev, [(tag,) * length for length in lengths])
    if task.kind == "multi-label":
        golds = [tuple(sorted(names)) for names in golds]
    return score_answers(task, examples_dev, [_most_frequent(golds, task.labels)] * len(examples_dev))


def gold_answer(example: Example) -> Any:
    """What an example says is right, in the form of an answer (to a question: all texts that people gave), or None."""
    if isinstance(example, TaggedExample):
        return example.tags
    if isinstance(example, QuestionExample):
        return None if example.answers is None else tuple(answer.text for answer in example.answers)
    return example.answer if isinstance(example, ChoiceExample) else example.label


def find_chunks(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """The names that tags mark, as (begin, end, type), by the rules of CoNLL's evaluation.

    `B-` begins one, and so does `I-` after `O` or after another type; BIOES, BILOU and BMES are understood as well. Of
    tags without such a prefix, every run of the same tag is one.

    >>> sorted(find_chunks(["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-ORG"]))
    [(0, 2, 'PER'), (2, 3, 'PER'), (4, 5, 'LOC'), (5, 6, 'ORG')]
    """
    chunks = set()
    begin, before, kind = 0, "O", ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, type_ = _split_tag(tag)
        goes_on = prefix != "O" != before and type_ == kind and prefix not in _BEGINS and before not in _ENDS
        if goes_on:
            before = prefix
            continue
        if before != "O":
            chunks.add((begin, place, kind))
        begin, before, kind = place, prefix, type_
    return chunks


def _split_tag(tag: str) -> tuple[str, str]:
    prefix, _, type_ = tag.partition("-")
    return (prefix, type_) if tag == "O" or prefix in _PREFIXES else ("I", tag)


def _check(examples: Sequence[Example], answers: Sequence[Any]) -> list[Any]:
    """Give what is right for each example."""
    if len(examples) != len(answers):
        raise RequestError(f"there are {len(answers):,} answers to {len(examples):,} examples: give one for each")
    if not examples:
        raise RequestError("there is no example to score: name a file that holds some")
    return [_known_gold(example) for example in examples]


def _known_gold(example: Example) -> Any:
    gold = gold_answer(example)
    if gold is None:
        raise RequestError(
            f"{example.place or 'example ' + repr(example.id)} has no label to compare with: "
            "score a split that has labels"
        )
    return gold


def _score_labels(labels: Sequence[str], golds: Sequence[str], answers: Sequence[str]) -> dict[str, float]:
    from sklearn.metrics import f1_score, matthews_corrcoef  # type: ignore[import-untyped]  # a second to import

    scores = {
        "accuracy": _share_equal(golds, answers),
        "macro_f1": float(f1_score(golds, answers, average="macro", zero_division=0)),
        # Where either side is always the same, the formula is 0/0, and 0 by convention.
        "matthews": float(matthews_corrcoef(golds, answers)) if _vary(golds, answers) else 0.0,
    }
    if len(labels) == 2:
        is_gold, is_answer = ([name == labels[-1] for name in names] for names in (golds, answers))
        scores["f1"] = float(f1_score(is_gold, is_answer, zero_division=0))
    return scores


def _score_label_sets(golds: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """Counted here, as scikit-learn takes a table with one column for two classes."""
    num_wanted = Counter(name for names in golds for name in set(names))
    num_given = Counter(name for names in answers for name in set(names))
    num_same = Counter(name for gold, answer in zip(golds, answers, strict=True) for name in {*gold} & {*answer})
    seen = sorted(num_wanted | num_given)
    each = [2 * num_same[name] / (num_wanted[name] + num_given[name]) for name in seen]
    return {
        "micro_f1": 2 * num_same.total() / max(1, num_wanted.total() + num_given.total()),
        "macro_f1": math.fsum(each) / max(1, len(each)),
        "accuracy": _share_equal([set(gold) for gold in golds], [set(answer) for answer in answers]),
    }


def _score_numbers(golds: Sequence[float], answers: Sequence[float]) -> dict[str, float]:
    from scipy import stats  # type: ignore[import-untyped]

    wanted, given = np.asarray(golds, np.float64), np.asarray(answers, np.float64)
    if not np.isfinite(given).all():
        place = int(np.flatnonzero(~np.isfinite(given))[0])
        raise RequestError(f"answer {place + 1} is {given[place]}: only finite numbers can be scored")
    return {
        "pearson": _correlate(stats.pearsonr, wanted, given),
        "spearman": _correlate(stats.spearmanr, wanted, given),
        "mse": float(np.mean((wanted - given) ** 2)),
        "mae": float(np.mean(np.abs(wanted - given))),
    }


def _correlate(correlation: Callable[..., Any], wanted: Any, given: Any) -> float:
    if not _vary(wanted.tolist(), given.tolist()):
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numbers that are all but the same, and of p-values of a few
        value = float(correlation(wanted, given).statistic)
    return value if math.isfinite(value) else 0.0


def _score_tags(
    examples: Sequence[Example], golds: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> dict[str, float]:
    num_right = num_words = num_found = num_wanted = num_same = 0
    for example, gold, answer in zip(examples, golds, answers, strict=True):
        if len(gold) != len(answer):
            raise RequestError(
                f"{example.place or 'example ' + repr(example.id)} has {len(gold):,} words, but the answer "
                f"{len(answer):,} tags: give one for each word"
            )
        num_words += len(gold)
        num_right += sum(one == other for one, other in zip(gold, answer, strict=True))
        wanted, found = find_chunks(gold), find_chunks(answer)
        num_wanted += len(wanted)
        num_found += len(found)
        num_same += len(wanted & found)
    return {
        "entity_f1": 2 * num_same / max(1, num_wanted + num_found),
        "entity_precision": num_same / max(1, num_found),
        "entity_recall": num_same / max(1, num_wanted),
        "accuracy": num_right / max(1, num_words),
    }


def _score_choices(examples: Sequence[Example], golds: Sequence[int], answers: Sequence[int]) -> dict[str, float]:
    groups: dict[str, list[bool]] = {}
    for example, gold, answer in zip(examples, golds, answers, strict=True):
        group = example.group if isinstance(example, ChoiceExample) else ""
        groups.setdefault(group, []).append(gold == answer)
    scores = {"accuracy": _share_equal(golds, answers)}
    return scores | {f"accuracy_{name}": sum(hits) / len(hits) for name, hits in sorted(groups.items()) if name}


def _share_equal(golds: Sequence[Any], answers: Sequence[Any]) -> float:
    return sum(bool(gold == answer) for gold, answer in zip(golds, answers, strict=True)) / len(golds)


def _vary(*columns: Sequence[Hashable]) -> bool:
    return all(len(set(column)) > 1 for column in columns)


def _most_frequent(values: Sequence[Any], labels: Sequence[str]) -> Any:
    if not values:
        raise RequestError("the training examples hold no tag to take the most frequent of")
    order = {name: number for number, name in enumerate(labels)}
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], order.get(value, len(order)), str(value)))
