"""Compressed models side by side: how small, how fast, and how good each method makes one original.

Every way of `litebert compress` makes a folder; those that are already in --out are used again. All models are then
opened in one process. Their speed is measured in rounds that take turns, on the same real sentences. Their quality is
measured without labels (the correlation of cosines with what people say about rated pairs, such as STS-B) and, if
SST-2 is named, by a logistic regression on the frozen vectors of 3,000 training sentences.

    python benchmarks/compress.py --model MiniLM --rated glue/STS-B --sst2 glue/SST-2 --out runs/compress
    python benchmarks/compress.py --model MiniLM --rated glue/STS-B --out runs/compress --text corpus --heal 10m
"""

import argparse
import itertools
import random
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import litebert
from harness import RESULTS, interleave, machine, median_ratio, record
from litebert.api import read_rated
from litebert.corpus.corpus import Corpus
from litebert.distillation.job import RatedPairs
from litebert.errors import RequestError
from litebert.folders import MANIFEST
from litebert.hub import resolve
from litebert.inference.load import Pipeline, TruncationWarning
from litebert.model.hf.checkpoint import measure_weights
from litebert.quantities import format_bytes, parse_duration
from litebert.reports.compression import Measured, write_compression
from litebert.runtime import prepare_process
from litebert.tasks.readers.sources import read_official
from litebert.tasks.task import TextExample
from litebert.text.sentences import split_sentences
from litebert.text.sources import open_sources

ORIGINAL = "original"
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "share, 1 block": ("share", {"blocks": 1}),
    "share, 2 blocks": ("share", {"blocks": 2}),
    "share, 3 blocks": ("share", {"blocks": 3}),
    "low-rank, E 128": ("low-rank", {"embedding_size": 128}),
    "low-rank, E 64": ("low-rank", {"embedding_size": 64}),
    "prune, half of the units": ("prune", {"keep": 0.5}),
    "prune, half of the units and heads": ("prune", {"keep": 0.5, "keep_heads": 0.5}),
    "quantize, int8": ("quantize", {}),
}
LABELLED = 3000  # of SST-2's training sentences
SHORTEST = 20  # characters of a sentence


def list_ways(heal: str | None) -> dict[str, tuple[str, dict[str, Any]]]:
    """All ways; with a time to heal, those that can be healed once more, and distillation."""
    if heal is None:
        return WAYS
    healed = {
        f"{name}, healed {heal}": (method, {**options, "heal": heal})
        for name, (method, options) in WAYS.items()
        if method != "quantize"
    }
    return WAYS | healed | {f"distill, {heal}": ("distill", {"heal": heal})}


def make_folders(model: str, text: Any, out: Path, ways: dict[str, tuple[str, dict[str, Any]]]) -> dict[str, Path]:
    """The original's folder and one for each way that fits it; those that are there already stay."""
    folders = {ORIGINAL: resolve(model)}
    for name, (method, options) in ways.items():
        folder = out / name.replace(", ", "-").replace(" ", "-")
        if not (folder / "config.json").is_file():
            try:
                result = litebert.compress(model, method, folder, text=text, **options)
            except RequestError as error:
                print(f"{name} is left out: {error}", flush=True)
                continue
            print(f"{name}: {result.done}", flush=True)
        folders[name] = folder
    return folders


def read_sentences(source: str, count: int) -> list[str]:
    """Sentences to measure the speed on, drawn from the first documents of a source."""
    found: list[str] = []
    for document in itertools.islice(open_sources(source), 2000):
        found += [sentence for sentence in split_sentences(document.text) if len(sentence) >= SHORTEST]
    random.Random(0).shuffle(found)
    return found[:count]


def measure_speeds(models: dict[str, Pipeline], sentences: list[str], rounds: int) -> dict[str, list[float]]:
    """Seconds of every round of every model."""

    def time_one(model: Pipeline) -> Callable[[], float]:
        def run() -> float:
            begin = time.perf_counter()
            model.embed(sentences)
            return time.perf_counter() - begin

        return run

    return interleave({name: time_one(model) for name, model in models.items()}, rounds, warmups=1)


def measure_rated(model: Pipeline, rated: RatedPairs) -> float:
    """Pearson correlation of cosines with scores."""
    first, second = (np.asarray(model.embed(texts)) for texts in (rated.first, rated.second))
    cosines = (first * second).sum(1) / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))
    return float(np.corrcoef(cosines, rated.scores)[0, 1])


def measure_sst2(model: Pipeline, folder: Path) -> float:
    """Accuracy on the development set of a logistic regression on frozen vectors."""
    from sklearn.linear_model import LogisticRegression

    splits = read_official("sst-2", folder, ["train", "dev"]).splits
    examples = {name: [one for one in split if isinstance(one, TextExample)] for name, split in splits.items()}
    train = random.Random(0).sample(examples["train"], min(LABELLED, len(examples["train"])))
    classifier = LogisticRegression(max_iter=2000)
    classifier.fit(model.embed([one.text for one in train]), [str(one.label) for one in train])
    dev = examples["dev"]
    return float(classifier.score(model.embed([one.text for one in dev]), [str(one.label) for one in dev]))


def measure_all(folders: dict[str, Path], options: argparse.Namespace) -> tuple[list[Measured], dict[str, Any]]:
    """Every figure of every model, and the ratios of speed with their spread."""
    models = {name: litebert.load(folder) for name, folder in folders.items()}
    rated = None if options.rated is None else read_rated(options.rated)
    sentences = read_sentences(options.sentences, options.count)
    seconds = measure_speeds(models, sentences, options.rounds)
    ratios = {name: median_ratio(seconds[ORIGINAL], seconds[name]) for name in models}
    measured = []
    for name, model in models.items():
        metrics = {} if rated is None else {f"{options.rated.stem} pearson": measure_rated(model, rated)}
        if options.sst2 is not None:
            metrics["SST-2 accuracy"] = measure_sst2(model, options.sst2)
        parameters = model.members[0].engine.num_bytes // 4
        rate = len(sentences) / statistics.median(seconds[name])
        size = measure_weights(folders[name])
        measured.append(Measured(name, parameters, size, rate, ratios[name]["ratio"], metrics))
        print(measured[-1], flush=True)
    return measured, ratios


def render(measured: list[Measured], ratios: dict[str, Any]) -> str:
    """A table with a row for each model."""
    names = list(dict.fromkeys(name for one in measured for name in one.metrics))
    lines = [
        f"| model | parameters | weights | texts/s | speed (rounds) | {' | '.join(names)} |",
        "|-|" + "-:|" * (4 + len(names)),
    ]
    for one in measured:
        spread = f"{ratios[one.name]['low']:.2f} to {ratios[one.name]['high']:.2f}"
        cells = [one.name, f"{one.parameters:,}", format_bytes(one.weight_bytes), f"{one.texts_per_second:,.0f}"]
        cells += [f"{one.speed:.2f} × ({spread})", *(f"{one.metrics[name]:.3f}" for name in names)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="the original: a folder, a run or a hub name")
    parser.add_argument("--name", help="what to call it in the results; its folder's name if not given")
    parser.add_argument("--out", type=Path, required=True, help="where the compressed folders go")
    parser.add_argument("--text", default="builtin:documentation", help="text to choose by and to heal on, or a corpus")
    parser.add_argument("--heal", help="heal for this time as well, such as 10m")
    parser.add_argument("--ways", help="only the ways whose names begin so, with commas between, such as share,prune")
    parser.add_argument("--rated", type=Path, help="pairs with scores, such as the folder of STS-B")
    parser.add_argument("--sst2", type=Path, help="the folder of SST-2")
    parser.add_argument("--sentences", default="builtin:documentation", help="sentences to measure the speed on")
    parser.add_argument("--count", type=int, default=256, help="sentences of a round")
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    prepare_process()
    warnings.filterwarnings("ignore", category=TruncationWarning)
    warnings.filterwarnings("ignore", "transformers (cannot|has no)")
    if options.heal is not None:
        parse_duration(options.heal)
    ways = list_ways(options.heal)
    if options.ways is not None:
        ways = {name: way for name, way in ways.items() if name.startswith(tuple(options.ways.split(",")))}
    options.out.mkdir(parents=True, exist_ok=True)
    text: Any = options.text
    if options.heal is not None and not (Path(options.text) / MANIFEST).is_file():
        prepared = options.out / "corpus"  # once for all
        text = (
            Corpus.open(prepared)
            if (prepared / MANIFEST).is_file()
            else litebert.prepare(text, options.model, prepared)
        )
    folders = make_folders(options.model, text, options.out, ways)
    measured, ratios = measure_all(folders, options)
    name = options.name or Path(options.model).name
    table = render(measured, ratios)
    about = (
        f"Speed: {options.count} sentences of {Path(options.sentences).name}, {options.rounds} rounds that take turns "
        "in one process; the ratio of medians, and of single rounds. Pearson: correlation of cosines with what people "
        "say, without labels."
    )
    if options.sst2 is not None:
        about += f" SST-2: a logistic regression on frozen vectors of {LABELLED:,} sentences."
    data = {"machine": machine(), "results": [asdict(one) for one in measured], "ratios": ratios}
    path = record(f"compress-{name}", f"Compressing {name}", f"{table}\n\n{about}", data)
    page = write_compression(RESULTS / f"{path.stem}.html", f"Compressing {name}", measured, about)
    print(table, path, page, sep="\n")


if __name__ == "__main__":
    main()
