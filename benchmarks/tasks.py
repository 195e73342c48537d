"""The table of tasks: the ladder of baselines, the encoder from scratch and the pretrained one, on real tasks.

Each task is named with its data and, where that is needed, with an encoder of its own; settings are in `SETTINGS`. Runs
that are done are kept in --out and not repeated, so that the table can grow over several evenings:

    python benchmarks/tasks.py --model my-run --out runs/tasks cola=glue/CoLA sst-2=glue/SST-2 squad2=squad race=race
    python benchmarks/tasks.py --model korean-run --out runs/tasks nsmc=nsmc

Rungs that nobody asks for can be left out, such as the encoder without pretraining, which takes as long as the other:

    python benchmarks/tasks.py --model my-run --out runs/tasks mrpc=glue/MRPC \\
        --rungs 'majority,bag-of-words,tf-idf,n-gram,vectors,vectors+tf-idf,pretrained encoder'

A name with a plus is the same task with another encoder, or with fewer layers of it, in a row of its own:

    python benchmarks/tasks.py --model albert_tiny_zh --out runs/tasks chnsenticorp+tiny=chnsenticorp
    python benchmarks/tasks.py --model litebert-en --depth 2 --lr 1e-4 --out runs/depths mrpc+2=glue/MRPC
"""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import machine
from litebert.baselines.compare import Comparison, compare
from litebert.folders import model_name
from litebert.runtime import prepare_process
from litebert.tasks.readers.sources import OFFICIAL, read_official
from litebert.tasks.task import Dataset
from usefulness import read_task

RESULTS = Path(__file__).parents[1] / "docs" / "results"


@dataclass(frozen=True)
class Settings:
    """How an encoder is fine-tuned here: small ones take higher rates and fewer steps than the paper's."""

    epochs: float = 2.0
    lr: float = 5e-4
    max_length: int = 128
    seeds: int = 1
    num_train: int | None = None
    """So many examples, drawn by chance; all of them if not given."""
    num_scored: int | None = None
    """The same for those that are scored."""


SETTINGS: dict[str, Settings] = {
    "cola": Settings(epochs=5, max_length=64, seeds=3),
    "mrpc": Settings(epochs=5, seeds=3),
    "sts-b": Settings(epochs=4, seeds=3),
    "sst-2": Settings(epochs=2, max_length=64),
    "qqp": Settings(epochs=3),
    "squad1": Settings(epochs=3, max_length=256),
    "squad2": Settings(epochs=3, max_length=256),
    "race": Settings(epochs=2, max_length=256, num_train=1600, num_scored=1000),
    "imdb": Settings(epochs=2, max_length=256, num_train=12_000),
    "nsmc": Settings(epochs=2, max_length=64, num_train=40_000),
    "chnsenticorp": Settings(epochs=4, max_length=256),
}


OVERRIDES = {"epochs": float, "lr": float, "seeds": int, "num_train": int}
"""Settings that an option may change."""


def read(name: str, folder: Path, settings: Settings) -> Dataset:
    """The examples of a task: official files in a folder, or what `usefulness.py` reads; dev is what is scored."""
    data = read_official(name, folder) if name in OFFICIAL else read_task(name, folder.parent)
    splits = {split: data.splits[split] for split in ("train", "dev")}
    for split, count in (("train", settings.num_train), ("dev", settings.num_scored)):
        if count is not None and count < len(splits[split]):
            splits[split] = random.Random(0).sample(splits[split], count)
    return Dataset(data.task, splits, data.num_skipped)


def run_task(
    name: str,
    source: Path,
    model: str,
    out: Path,
    settings: Settings,
    rungs: list[str] | None = None,
    depth: int | None = None,
) -> None:
    """Climb the ladder on one task, or some rungs of it, and keep what came out."""
    data = read(_task_of(name), source, settings)
    folder = out / name
    comparison = Comparison.plan(
        data,
        model,
        folder,
        split="dev",
        num_seeds=settings.seeds,
        epochs=settings.epochs,
        batch_size=32,
        lr=settings.lr,
        max_length=settings.max_length,
        depth=depth,
    )
    config = comparison.config
    chosen_rungs = None if rungs is None else [rung for rung in rungs if rung in comparison.rungs]
    done = compare(
        comparison, chosen_rungs, on_row=lambda row: print(f"{name}: {row['name']} {row['score']}", flush=True)
    )
    sizes = [len(data.splits["train"]), len(data.splits["dev"])]
    facts = {"encoder": describe_encoder(Path(model)), "date": machine()["date"], "compiled": config.train.compiled}
    if depth is not None:
        facts["encoder"] = f"{facts['encoder']}, {depth} layers"
    chosen = {
        "epochs": settings.epochs,
        "lr": settings.lr,
        "max_length": config.max_length,
        "seeds": settings.seeds,
    }
    result = {"task": name, "metric": data.task.metric, "sizes": sizes, **chosen, **facts, "rows": done["rows"]}
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _task_of(name: str) -> str:
    return name.partition("+")[0]


def describe_encoder(run: Path) -> str:
    """What the encoder had seen, and what it knew at the end of its pretraining, if it is a run of ours."""
    if not (run / "metrics.jsonl").is_file():
        return model_name(run)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    last = [line for line in lines if line["kind"] == "evaluation"][-1]
    words, minutes = 100 * last["mlm_accuracy"], last["seconds"] / 60
    return f"{run.name} ({last['tokens'] / 1e6:.1f} M tokens in {minutes:.0f} minutes, {words:.1f} % of masked words)"


NAMES = {
    "encoder from scratch": "from scratch",
    "pretrained encoder": "fine-tuned",
    "pretrained encoder+tf-idf": "fine-tuned+tf-idf",
}
SIMPLE = ("majority", "first-words", "bag-of-words", "tf-idf", "word2vec", "n-gram")
USES = ("vectors", "vectors+tf-idf", "pretrained encoder", "pretrained encoder+tf-idf")
ORDER = (*SIMPLE, "encoder from scratch", *USES)
METRICS = {"matthews": "Matthews", "pearson": "Pearson", "f1": "F1"}
ABOUT = """\
Scores × 100, higher is better; the best of each row is bold. A rung that was run with several seeds has the median and,
in brackets, the lowest and the highest. Every rung learnt from the same examples and was scored on the same others
(dev, and test for IMDB and NSMC; the encoders chose their checkpoint on a tenth of the training examples instead, and
learnt from the rest). `vectors` is a linear model on what the pretrained encoder says as it is (the mean of its states
beside that of its word vectors, rare ones weighing more), `vectors+tf-idf` one that has the words beside it; of
choices, both weigh how alike option, question and passage are. `fine-tuned+tf-idf` adds what tf-idf says to what the
fine-tuned encoder says (as fine-tuning with `--tf-idf` does, with a weight that suits the same tenth; here the words
then learn from all examples); of questions, it says which sentence is like the question. `from scratch` is the encoder
fine-tuned without pretraining. The last column is how far the best of what uses the pretrained encoder is ahead of the
best of what does not, both chosen on the examples that are scored. Of shares, a lead below 1.96 · √(2 · p · (1 - p) /
examples) may be chance. An encoder that scores as the majority does has learnt nothing in its few epochs.

The baselines read whole texts, the encoders the first tokens (`length`; of questions, all windows). The order of the
n-grams (3) and the number of word2vec's passes were settled after looking at such data: these two rungs are flattered a
little."""


def by_name(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of a task that have a score."""
    return {row["name"]: row for row in result["rows"] if row["score"] is not None}


def find_lead(rows: dict[str, dict[str, Any]], uses: Sequence[str]) -> float | None:
    """How far the best of these uses of the encoder is ahead of the best simple rung; None if none of them was run."""
    ours, simple = ([rows[name]["score"] for name in names if name in rows] for names in (uses, SIMPLE))
    return max(ours) - max(simple) if ours and simple else None


def count_leads(results: list[dict[str, Any]], name: str, uses: Sequence[str]) -> str:
    """On how many tasks these uses are ahead."""
    return _count(name, [find_lead(by_name(result), uses) for result in results])


def count_settled_leads(results: list[dict[str, Any]]) -> str:
    """On how many tasks the one use is ahead that a user can settle before looking at any score."""
    tables = [by_name(result) for result in results]
    leads = [find_lead(rows, [USES[3] if USES[3] in rows else USES[2]]) for rows in tables]
    return _count("fine-tuned, with tf-idf where it can be", leads)


def _count(name: str, leads: list[float | None]) -> str:
    known = [lead for lead in leads if lead is not None]
    return f"{name}: ahead on {sum(lead > 0 for lead in known)} of {len(known)}"


def render(results: list[dict[str, Any]]) -> str:
    """One row per task, one column per rung; beside them what the encoder is ahead by; then what each took."""
    names = sorted({row["name"] for result in results for row in result["rows"]}, key=[*ORDER].index)
    shown = [NAMES.get(name, name) for name in names]
    lines = [f"| task | learnt from / scored on | {' | '.join(shown)} | ahead by |", "|-" * (len(names) + 3) + "|"]
    times = [
        f"| task | epochs | rate | length | seeds | {' | '.join(shown)} | encoder |",
        "|-" * (len(names) + 6) + "|",
    ]
    for result in results:
        rows = by_name(result)
        best = max(row["score"] for row in rows.values())
        metric = METRICS.get(result["metric"], result["metric"])
        lead = find_lead(rows, USES)
        cells = " | ".join(_show_score(rows.get(name), best) for name in names)
        sizes = " / ".join(f"{size:,}" for size in result["sizes"])
        lines.append(
            f"| {result['task']}, {metric} | {sizes} | {cells} | {'–' if lead is None else f'{100 * lead:+.1f}'} |"
        )
        seconds = " | ".join(_show_costs(rows.get(name)) for name in names)
        chosen = " | ".join(f"{result.get(key, Settings.lr):g}" for key in ("epochs", "lr", "max_length", "seeds"))
        times.append(f"| {result['task']} | {chosen} | {seconds} | {result['encoder']} |")
    counts = [
        count_leads(results, "The best use of the encoder", USES),
        count_settled_leads(results),
        count_leads(results, "fine-tuned alone", USES[2:3]),
        count_leads(results, "vectors beside tf-idf alone", USES[1:2]),
    ]
    costs = "Seconds to learn (of one seed), and texts per second after that (other work may have run beside it):"
    return "\n\n".join([ABOUT, "\n".join(lines), f"{'; '.join(counts)}.", costs, "\n".join(times)])


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
    parser.add_argument("tasks", nargs="*", help="NAME=FOLDER")
    parser.add_argument("--model", help="the encoder for these tasks: a run or a model folder")
    parser.add_argument("--out", type=Path, required=True, help="a folder that keeps the runs")
    parser.add_argument("--name", default="tasks", help="of the page: docs/results/DATE-NAME.md")
    parser.add_argument("--rungs", help="the rungs of the ladder, with commas between them; all if not given")
    for key, kind in OVERRIDES.items():
        parser.add_argument(
            f"--{key.replace('_', '-')}", type=kind, help="for these tasks; what `SETTINGS` says if not given"
        )
    parser.add_argument("--depth", type=int, help="layers of the encoder to begin with; all if not given")
    options = parser.parse_args()
    prepare_process()
    rungs = None if options.rungs is None else options.rungs.split(",")
    for task in options.tasks:
        name, _, source = task.partition("=")
        if not (options.out / name / "result.json").is_file():
            given = {key: getattr(options, key) for key in OVERRIDES if getattr(options, key)}
            settings = replace(SETTINGS[_task_of(name)], **given)
            run_task(name, Path(source), options.model, options.out, settings, rungs, options.depth)
    order = [*SETTINGS]
    done = sorted(
        options.out.glob("*/result.json"), key=lambda file: (order.index(_task_of(file.parent.name)), file.parent.name)
    )
    results = [json.loads(file.read_text(encoding="utf-8")) for file in done]
    if not results:
        sys.exit("nothing is done yet: name tasks")
    table = render(results)
    print(table)
    RESULTS.mkdir(parents=True, exist_ok=True)
    facts = machine()
    versions = ", ".join(f"{key} {facts[key]}" for key in ("cpu", "python", "torch", "transformers", "litebert"))
    heading = f"# Tasks, and the ladder of baselines\n\n{facts['date']}, `python benchmarks/tasks.py`. {versions}."
    file = RESULTS / f"{facts['date']}-{options.name}.md"
    file.write_text(f"{heading}\n\n{table}\n", encoding="utf-8")
    file.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"written to {file}")


if __name__ == "__main__":
    main()
