"""tf-idf to stand beside an encoder: what it learns of words from a task's examples, to be kept with the encoder."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from litebert.baselines.bag_of_words import BagOfWords
from litebert.baselines.linear import LinearClassifier, LinearLabeler, LinearModel
from litebert.baselines.questions import QuestionItem, cut_sentences
from litebert.errors import RequestError
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.kind import AnswerType
from litebert.tasks.task import Example, Task
from litebert.tasks.tf_idf import TfIdf, list_terms

__all__ = ["MOST_WEIGHTS", "learn_tf_idf"]

_STRENGTH = 10.0  # C, as on the ladder
MOST_WEIGHTS = 4_000_000
"""Of all labels together, so that a folder has at most 8 MB of them."""
_MOST_TERMS = 200_000  # where terms have a rarity alone
_COSINE = 10.0  # what the cosine of question and sentence counts, before it is weighed


def learn_tf_idf(task: Task, examples: Sequence[Example], seed: int = 0, balanced: bool = False) -> TfIdf:
    """Learn from those examples that have a label; of questions, from all."""
    models: dict[AnswerType, LinearModel] = {
        "label": LinearClassifier(_STRENGTH, seed, balanced),
        "labels": LinearLabeler(_STRENGTH, seed),
    }
    kind = kind_of(task)
    if kind.answer_type == "span":
        return _weigh_terms([kind.inputs(example) for example in examples])
    if kind.answer_type not in models:
        raise RequestError(f"--tf-idf is for classes and questions, and {task.name} has neither: leave it out")
    learnt = [example for example in examples if kind.gold(example) is not None]
    bags = BagOfWords(models[kind.answer_type], "tf-idf", most_weights=MOST_WEIGHTS)
    bags.fit([kind.inputs(example) for example in learnt], [kind.baseline_target(example) for example in learnt])
    return bags.as_tf_idf(task.labels)


def _weigh_terms(items: Sequence[QuestionItem]) -> TfIdf:
    """How rare the terms of questions and of the sentences of their contexts are; a pair is as good as its cosine."""
    contexts = dict.fromkeys(context for _, context in items)
    texts = [sentence for context in contexts for sentence in cut_sentences(context)]
    counts = Counter(term for text in (*texts, *(question for question, _ in items)) for term in {*list_terms(text)})
    num_texts = len(texts) + len(items)
    chosen = counts.most_common(_MOST_TERMS) or [("", 1)]
    return TfIdf(
        terms=tuple(term for term, _ in chosen),
        idf=np.array([1 + math.log((1 + num_texts) / (1 + count)) for _, count in chosen], np.float32),
        weights=np.zeros((len(chosen), 0, 1), np.float32),
        cosine=np.array([_COSINE], np.float32),
        bias=np.zeros(1, np.float32),
    )
