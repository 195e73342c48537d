"""The table of tasks: the ladder of baselines, the encoder from scratch and the pretrained one, on real tasks.

Each task is named with its data and, where that is needed, with an encoder of its own; settings are in `SETTINGS`. Runs
that are done are kept in --out and not repeated, so that the table can grow over several evenings:

    python benchmarks/tasks.py --model my-run --out runs/tasks cola=glue/CoLA sst-2=glue/SST-2 squad2=squad race=race
    python benchmarks/tasks.py --model korean-run --out runs/tasks nsmc=nsmc/train.tsv,nsmc/test.tsv

A name with a plus is the same task with another encoder, in a row of its own:

    python benchmarks/tasks.py --model albert_tiny_zh --out runs/tasks chnsenticorp+tiny=train.jsonl,dev.jsonl
"""

import argparse
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import machine
from litebert.baselines.compare import Comparison, compare
from litebert.runtime import prepare_process
from litebert.tasks.readers.sources import OFFICIAL, OwnData, read_official, read_own
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
    "cola": Settings(epochs=2, max_length=64, seeds=5),
    "mrpc": Settings(seeds=5),
    "sts-b": Settings(epochs=1, seeds=5),
    "sst-2": Settings(epochs=1, max_length=64),
    "qqp": Settings(epochs=1),
    "squad1": Settings(epochs=1, max_length=256),
    "squad2": Settings(epochs=1, max_length=256),
    "race": Settings(epochs=1, max_length=256, num_train=800, num_scored=1000),
    "imdb": Settings(epochs=1, num_train=12_000, split="test"),
    "nsmc": Settings(epochs=1, max_length=64, num_train=40_000, split="test", columns=Columns(text="document")),
    "chnsenticorp": Settings(split="test"),
}


def read(name: str, paths: list[Path], settings: Settings) -> Dataset:
    """The examples of a task: official files in a folder, or files for training and for the last test."""
    if name in OFFICIAL:
        data = read_official(name, paths[0])
    else:
        data = read_own(OwnData(paths[0], test=paths[1], columns=settings.columns))
    splits = {**data.splits}
    for split, count in (("train", settings.num_train), (settings.split, settings.num_scored)):
        if count is not None and count < len(splits[split]):
            splits[split] = random.Random(0).sample(splits[split], count)
    return Dataset(data.task, splits, data.num_skipped)


def run_task(name: str, paths: list[Path], model: str, out: Path) -> None:
    """Climb the ladder on one task, and keep what came out."""
    settings = SETTINGS[_task_of(name)]
    data = read(_task_of(name), paths, settings)
    folder = out / name
    comparison = Comparison.plan(
        data,
        model,
        folder,
        split=settings.split,
        num_seeds=settings.seeds,
        epochs=settings.epochs,
        batch_size=32,
        lr=settings.lr,
        max_length=settings.max_length,
    )
    config = comparison.config
    done = compare(comparison, on_row=lambda row: print(f"{name}: {row['name']} {row['score']}", flush=True))
    sizes = [len(data.splits["train"]), len(data.splits[settings.split])]
    facts = {"encoder": describe_encoder(Path(model)), "date": machine()["date"], "compiled": config.train.compiled}
    chosen = {"epochs": settings.epochs, "max_length": config.max_length, "seeds": settings.seeds}
    result = {"task": name, "metric": data.task.metric, "sizes": sizes, **chosen, **facts, "rows": done["rows"]}
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _task_of(name: str) -> str:
    return name.partition("+")[0]


def describe_encoder(run: Path) -> str:
    """What the encoder had seen, and what it knew at the end of its pretraining, if it is a run of ours."""
    if not (run / "metrics.jsonl").is_file():
        return run.name
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    last = [line for line in lines if line["kind"] == "evaluation"][-1]
    words, minutes = 100 * last["mlm_accuracy"], last["seconds"] / 60
    return f"{run.name} ({last['tokens'] / 1e6:.1f} M tokens in {minutes:.0f} minutes, {words:.1f} % of masked words)"


NAMES = {"encoder from scratch": "from scratch", "pretrained encoder": "pretrained"}
METRICS = {"matthews": "Matthews", "pearson": "Pearson", "f1": "F1"}
ABOUT = """\
Scores × 100, higher is better; the best of each row is bold. A rung that was run with several seeds has the median
and, in brackets, the lowest and the highest. Every rung learnt from the same examples and was scored on the same others
(dev for GLUE, SQuAD and RACE, where the encoders chose their checkpoint on a tenth of the training examples instead,
and learnt from the rest). The two encoders have the same shape, recipe and tokenizer; the last column is what
pretraining brought. An encoder that scores as the majority does has learnt nothing in its few epochs.

The baselines read whole texts, the encoders the first tokens (`length`; of questions, all windows). The order of the
n-grams (3) and the number of word2vec's passes were settled after looking at such data: these two rungs are flattered a
little."""


def render(results: list[dict[str, Any]]) -> str:
    """One row per task, one column per rung; beside them what pretraining brought; then what each took."""
    names = list(dict.fromkeys(row["name"] for result in results for row in result["rows"]))
    shown = [NAMES.get(name, name) for name in names]
    lines = [f"| task | learnt from / scored on | {' | '.join(shown)} | gain |", "|-" * (len(names) + 3) + "|"]
    times = [f"| task | epochs | length | seeds | {' | '.join(shown)} | encoder |", "|-" * (len(names) + 5) + "|"]
    for result in results:
        rows = {row["name"]: row for row in result["rows"]}
        best = max(row["score"] for row in rows.values() if row["score"] is not None)
        name = result.get("metric", result.get("score"))  # results of before have the second key
        metric = METRICS.get(name, name)
        gain = rows["pretrained encoder"]["score"] - rows["encoder from scratch"]["score"]
        cells = " | ".join(_show_score(rows.get(name), best) for name in names)
        sizes = " / ".join(f"{size:,}" for size in result["sizes"])
        lines.append(f"| {result['task']}, {metric} | {sizes} | {cells} | {100 * gain:+.1f} |")
        seconds = " | ".join(_show_costs(rows.get(name)) for name in names)
        chosen = " | ".join(f"{result[key]:g}" for key in ("epochs", "max_length", "seeds"))
        times.append(f"| {result['task']} | {chosen} | {seconds} | {result['encoder']} |")
    costs = "Seconds to learn (of one seed), and texts per second after that (other work may have run beside it):"
    return "\n\n".join([ABOUT, "\n".join(lines), costs, "\n".join(times)])


def _show_score(row: dict[str, Any] | None, best: float) -> str:
    if row is None or row["score"] is None:
        return "–"
    mark = "**" if row["score"] == best else ""
    low, high = row.get("score_low"), row.get("score_high")
    spread = f" ({100 * low:.1f}–{100 * high:.1f})" if low is not None and high is not None else ""
    return f"{mark}{100 * row['score']:.1f}{mark}{spread}"


def _show_costs(row: dict[str, Any] | None) -> str:
    if row is None or row["score"] is None:
        return "–"
    rate = float(f"{row['texts_per_second']:.2g}")
    return f"{row['train_seconds']:,.0f} s; {rate:,.0f}/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="NAME=FOLDER of an official task, or NAME=TRAIN,TEST")
    parser.add_argument("--model", help="the encoder for these tasks: a run or a model folder")
    parser.add_argument("--out", type=Path, required=True, help="a folder that keeps the runs")
    options = parser.parse_args()
    prepare_process()
    for task in options.tasks:
        name, _, paths = task.partition("=")
        if not (options.out / name / "result.json").is_file():
            run_task(name, [Path(path) for path in paths.split(",")], options.model, options.out)
    done = sorted(options.out.glob("*/result.json"), key=lambda file: [*SETTINGS].index(_task_of(file.parent.name)))
    results = [json.loads(file.read_text(encoding="utf-8")) for file in done]
    if not results:
        sys.exit("nothing is done yet: name tasks")
    table = render(results)
    print(table)
    RESULTS.mkdir(parents=True, exist_ok=True)
    facts = machine()
    versions = ", ".join(f"{key} {facts[key]}" for key in ("cpu", "python", "torch", "transformers", "litebert"))
    heading = f"# Tasks, and the ladder of baselines\n\n{facts['date']}, `python benchmarks/tasks.py`. {versions}."
    file = RESULTS / f"{facts['date']}-tasks.md"
    file.write_text(f"{heading}\n\n{table}\n", encoding="utf-8")
    file.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"written to {file}")


if __name__ == "__main__":
    main()
