"""The table of tasks: the ladder of baselines, the encoder from scratch and the pretrained one, on real tasks.

Each task is named with its data and, where that is needed, with an encoder of its own; settings are in `SETTINGS`. Runs
that are done are kept in --out and not repeated, so that the table can grow over several evenings:

    python benchmarks/tasks.py --model my-run --out runs/tasks cola=glue/CoLA sst-2=glue/SST-2 squad2=squad race=race
    python benchmarks/tasks.py --model korean-run --out runs/tasks nsmc=nsmc/train.tsv,nsmc/test.tsv
"""

import argparse
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import machine
from litebert.lab.compare import Contest, compare
from litebert.runtime import prepare_process
from litebert.tasks.finetune import configure, measure_volume, open_encoder
from litebert.tasks.sources import OFFICIAL, OwnData, read_official, read_own
from litebert.tasks.task import Columns, Dataset

RESULTS = Path(__file__).parents[1] / "docs" / "results"


@dataclass(frozen=True)
class Settings:
    """How an encoder is fine-tuned here: small ones take higher rates and fewer steps than the paper's."""

    epochs: float = 2.0
    lr: float = 3e-4
    max_length: int = 128
    seeds: int = 1
    num_train: int | None = None
    """So many examples, drawn by chance; all of them if not given."""
    num_scored: int | None = None
    """The same for those that are scored."""
    split: str = "dev"
    columns: Columns = field(default_factory=Columns)


SETTINGS: dict[str, Settings] = {
    "cola": Settings(epochs=3, max_length=64, seeds=5),
    "mrpc": Settings(seeds=5),
    "sts-b": Settings(seeds=5),
    "sst-2": Settings(epochs=1, max_length=64),
    "qqp": Settings(epochs=1),
    "squad1": Settings(epochs=1, max_length=256),
    "squad2": Settings(epochs=1, max_length=256),
    "race": Settings(epochs=1, max_length=256, num_train=1000, num_scored=1000),
    "imdb": Settings(epochs=1, num_train=10_000, split="test"),
    "nsmc": Settings(epochs=1, max_length=64, num_train=40_000, split="test", columns=Columns(text="document")),
    "chnsenticorp": Settings(split="test"),
}


def read(name: str, places: list[Path], settings: Settings) -> Dataset:
    """The examples of a task: official files in a folder, or files for training and for the last test."""
    if name in OFFICIAL:
        data = read_official(name, places[0])
    else:
        data = read_own(OwnData(places[0], test=places[1], columns=settings.columns))
    splits = {**data.splits}
    for split, count in (("train", settings.num_train), (settings.split, settings.num_scored)):
        if count is not None and count < len(splits[split]):
            splits[split] = random.Random(0).sample(splits[split], count)
    return Dataset(data.task, splits, data.num_skipped)


def run_task(name: str, places: list[Path], model: str, out: Path) -> dict[str, Any]:
    """Climb the ladder on one task, and keep what came out."""
    settings = SETTINGS[name]
    data = read(name, places, settings)
    shape, tokenizer, place = open_encoder(model)
    config = configure(
        data.task,
        measure_volume(data.task, data.splits["train"], tokenizer, settings.max_length),
        shape,
        place,
        epochs=settings.epochs,
        batch_size=32,
        lr=settings.lr,
        max_length=settings.max_length,
    )
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    contest = Contest(data, settings.split, config, tokenizer, folder, settings.seeds)
    rows = compare(contest, on_row=lambda row: print(f"{name}: {row['name']} {row['score']}", flush=True))
    sizes = {"train": len(data.splits["train"]), settings.split: len(data.splits[settings.split])}
    result = {"task": name, "score": data.task.score, "sizes": sizes, "seeds": settings.seeds, "rows": rows}
    (folder / "result.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    return result


def render(results: list[dict[str, Any]]) -> str:
    """One row per task, one column per rung; beside them what pretraining brought."""
    names = list(dict.fromkeys(row["name"] for result in results for row in result["rows"]))
    lines = [f"| task | examples | score | {' | '.join(names)} | gain of pretraining |", "|-" * (len(names) + 4) + "|"]
    for result in results:
        scores = {row["name"]: row for row in result["rows"]}
        sizes = " / ".join(f"{size:,}" for size in result["sizes"].values())
        cells = [_show(scores.get(name)) for name in names]
        gain = scores["pretrained encoder"]["score"] - scores["encoder from scratch"]["score"]
        lines.append(f"| {result['task']} | {sizes} | {result['score']} | {' | '.join(cells)} | {100 * gain:+.1f} |")
    return "\n".join(lines)


def _show(row: dict[str, Any] | None) -> str:
    if row is None or row["score"] is None:
        return "–"
    spread = (
        f" ({100 * row['score_low']:.1f}–{100 * row['score_high']:.1f})" if row.get("score_low") is not None else ""
    )
    return f"{100 * row['score']:.1f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="NAME=FOLDER of an official task, or NAME=TRAIN,TEST")
    parser.add_argument("--model", help="the encoder for these tasks: a run or a model folder")
    parser.add_argument("--out", type=Path, required=True, help="a folder that keeps the runs")
    options = parser.parse_args()
    prepare_process()
    for task in options.tasks:
        name, _, places = task.partition("=")
        if not (options.out / name / "result.json").is_file():
            run_task(name, [Path(place) for place in places.split(",")], options.model, options.out)
    done = [options.out / name / "result.json" for name in SETTINGS]
    results = [json.loads(file.read_text(encoding="utf-8")) for file in done if file.is_file()]
    table = render(results)
    print(table)
    RESULTS.mkdir(parents=True, exist_ok=True)
    facts = machine()
    about = ", ".join(f"{name} {value}" for name, value in facts.items())
    file = RESULTS / f"{facts['date']}-tasks.md"
    file.write_text(f"# Tasks, and the ladder of baselines\n\n{table}\n\n{about}\n", encoding="utf-8")
    print(f"written to {file}")


if __name__ == "__main__":
    main()
