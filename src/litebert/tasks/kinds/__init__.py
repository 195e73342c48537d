"""Kinds of tasks, one module each. To add one, write its module and add it to `KINDS`."""

from litebert.errors import RequestError
from litebert.tasks.kinds.choice import Choice
from litebert.tasks.kinds.kind import Kind
from litebert.tasks.kinds.questions import Questions
from litebert.tasks.kinds.similarity import Similarity
from litebert.tasks.kinds.tagging import Tagging
from litebert.tasks.kinds.texts import Classification, MultiLabel, Regression
from litebert.tasks.task import Task

__all__ = ["KINDS", "find_kind", "kind_of"]

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (Classification(), MultiLabel(), Regression(), Similarity(), Tagging(), Questions(), Choice())
}
"""Every kind by its name."""


def find_kind(name: str) -> Kind:
    """The kind of this name."""
    if name not in KINDS:
        raise RequestError(f"there is no kind of task {name!r}: choose one of {', '.join(KINDS)}")
    return KINDS[name]


def kind_of(task: Task) -> Kind:
    """The kind of a task."""
    return find_kind(task.kind)
