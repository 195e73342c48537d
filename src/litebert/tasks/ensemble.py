"""Ensembles: which models to take together, decided on the development set (Lan et al., 2020, section 5)."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from litebert.errors import RequestError
from litebert.folders import write_json
from litebert.tasks.outputs import Outputs, average
from litebert.tasks.predictor import ENSEMBLE, Member, Predictor, check_members
from litebert.tasks.scoring import score_outputs
from litebert.tasks.task import Example

__all__ = ["Choice", "choose_members", "write_ensemble"]


@dataclass(frozen=True)
class Choice:
    """Members in the order in which they were taken, and what each addition brought."""

    predictor: Predictor
    scores: list[dict[str, float]]
    """On the development set: of the first member, of the first two, and so on."""
    alone: dict[str, float]
    """The deciding score of every candidate by itself."""


def choose_members(candidates: Sequence[Member], examples: Sequence[Example], take_all: bool = False) -> Choice:
    """Begin with the best candidate, and add the one that helps most as long as one does; or take all of them.

    The choice flatters the score on these examples; other examples tell what the ensemble is worth.
    """
    if not candidates:
        raise RequestError("an ensemble needs one model at least")
    check_members(candidates)
    task = candidates[0].saved.task
    outputs = [member.ask(examples) for member in candidates]

    def measure(chosen: Sequence[int]) -> tuple[dict[str, float], float | None]:
        together: Outputs = average(task, [outputs[place] for place in chosen])
        return score_outputs(task, examples, together)

    alone = [measure([place])[0][task.score] for place in range(len(candidates))]
    order = sorted(range(len(candidates)), key=lambda place: -alone[place])
    chosen, rest = order[:1], order[1:]
    scores, threshold = measure(chosen)
    history = [scores]
    while rest:
        trials = {place: measure([*chosen, place]) for place in rest}
        best = max(rest, key=lambda place: trials[place][0][task.score])
        if not take_all and trials[best][0][task.score] <= history[-1][task.score]:
            break
        chosen, rest = [*chosen, best], [place for place in rest if place != best]
        threshold = trials[best][1]
        history.append(trials[best][0])
    names = {str(member.folder): score for member, score in zip(candidates, alone, strict=True)}
    return Choice(Predictor(tuple(candidates[place] for place in chosen), threshold), history, names)


def write_ensemble(folder: Path, choice: Choice) -> Path:
    """Write which models belong together; the models stay where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    predictor = choice.predictor
    write_json(
        folder / ENSEMBLE,
        {
            "format": 1,
            "task": predictor.task.name,
            "members": [os.path.relpath(member.folder, folder) for member in predictor.members],
            "threshold": predictor.threshold,
            "scores": choice.scores,
            "alone": {os.path.relpath(name, folder): score for name, score in choice.alone.items()},
        },
    )
    return folder / ENSEMBLE
