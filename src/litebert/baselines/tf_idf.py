"""tf-idf to stand beside an encoder: what it learns of words from a task's examples, to be kept with the encoder."""

from collections.abc import Sequence

from litebert.baselines.bag_of_words import BagOfWords
from litebert.baselines.linear import LinearClassifier, LinearLabeler, LinearModel
from litebert.errors import RequestError
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.kind import AnswerType
from litebert.tasks.task import Example, Task
from litebert.tasks.tf_idf import TfIdf

__all__ = ["learn_tf_idf"]

_STRENGTH = 10.0  # C, as on the ladder
_MOST_WEIGHTS = 4_000_000  # of all labels together: 8 MB in a folder


def learn_tf_idf(task: Task, examples: Sequence[Example], seed: int = 0, balanced: bool = False) -> TfIdf:
    """Learn from those examples that have a label."""
    models: dict[AnswerType, LinearModel] = {
        "label": LinearClassifier(_STRENGTH, seed, balanced),
        "labels": LinearLabeler(_STRENGTH, seed),
    }
    kind = kind_of(task)
    if kind.answer_type not in models:
        raise RequestError(f"--tf-idf is for classes, and {task.name} has none: leave it out")
    learnt = [example for example in examples if kind.gold(example) is not None]
    bags = BagOfWords(models[kind.answer_type], "tf-idf", most_weights=_MOST_WEIGHTS // (4 if task.is_pair else 1))
    bags.fit([kind.inputs(example) for example in learnt], [kind.baseline_target(example) for example in learnt])
    return bags.as_tf_idf(task.labels)
