"""Ensembles: which models to take together, decided on the development set (Lan et al., 2020, section 5)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.errors import RequestError
from litebert.folders import write_json
from litebert.inference.load import ENSEMBLE, Member, Pipeline, check_members
from litebert.tasks.kinds import kind_of
from litebert.tasks.metrics import evaluate_outputs
from litebert.tasks.task import Example
from litebert.training.run_folder import RunFolder

__all__ = ["Choice", "choose_members", "write_ensemble"]


@dataclass(frozen=True)
class Choice:
    """Members in the order in which they were taken, and what each addition brought."""

    pipeline: Pipeline
    metrics: list[dict[str, float]]
    """On the development set: of the first member, of the first two, and so on."""
    alone: dict[str, float]
    """The deciding metric of every candidate by itself."""


def choose_members(candidates: Sequence[Member], examples: Sequence[Example], take_all: bool = False) -> Choice:
    """Begin with the best candidate, and add the one that helps most as long as one does; or take all of them.

    The choice flatters the metric on these examples; other examples tell what the ensemble is worth.
    """
    if not candidates:
        raise RequestError("an ensemble needs one model at least")
    check_members(candidates)
    task = candidates[0].task.task
    kind, metric = kind_of(task), task.metric
    outputs = [member.run(examples, member.encode(examples)) for member in candidates]

    def measure(chosen: Sequence[int]) -> dict[str, float]:
        said = zip(*(outputs[index] for index in chosen), strict=True)
        together = outputs[chosen[0]] if len(chosen) == 1 else [kind.average(task, one) for one in said]
        return evaluate_outputs(task, examples, together)[0]

    alone = [measure([index])[metric] for index in range(len(candidates))]
    order = sorted(range(len(candidates)), key=lambda index: -alone[index])
    chosen, rest = order[:1], order[1:]
    history = [measure(chosen)]
    while rest:
        trials = {index: measure([*chosen, index]) for index in rest}
        best = max(rest, key=lambda index: trials[index][metric])
        if not take_all and trials[best][metric] <= history[-1][metric]:
            break
        chosen, rest = [*chosen, best], [index for index in rest if index != best]
        history.append(trials[best])
    names = {str(member.folder): value for member, value in zip(candidates, alone, strict=True)}
    members = tuple(candidates[index] for index in chosen)
    return Choice(Pipeline(members, history[-1].get("threshold")), history, names)


def write_ensemble(folder: Path, choice: Choice) -> Path:
    """Write which models belong together; the models stay where they are."""
    RunFolder(folder).refuse_run()
    folder.mkdir(parents=True, exist_ok=True)
    pipeline = choice.pipeline
    write_json(
        folder / ENSEMBLE,
        {
            "format": 1,
            "task": pipeline.task.name,
            "members": [os.path.relpath(member.folder, folder) for member in pipeline.members],
            "threshold": pipeline.threshold,
            "metrics": choice.metrics,
            "alone": {os.path.relpath(name, folder): value for name, value in choice.alone.items()},
        },
    )
    return folder / ENSEMBLE
