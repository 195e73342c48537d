"""What an encoder is worth to somebody with labels of their own and a laptop.

For 200, 1,000 and all labels of a task: a linear model on the encoder's frozen vectors, one on these and tf-idf, and
the encoder fine-tuned by `litebert.finetune` with its defaults for a user's own table, and with words beside it
(`--tf-idf`). Beside them what needs no
encoder (the majority, bags of words, tf-idf) and the static vectors that model2vec distils from a teacher. All learn
from the same examples and are scored on the same others. Where pairs are rated, the plain cosine is measured too,
which needs no labels.

Cells that are done are kept in --out and not repeated, so that the table can grow over several sittings:

    python benchmarks/usefulness.py --data data --out runs/usefulness --model litebert-en --teacher MiniLM
    python benchmarks/usefulness.py --data data --out runs/usefulness --model litebert-en --model teacher=MiniLM \\
        --only sst-2,mrpc --contestants frozen,tf-idf --labels 200,all --most-train 10000 --depths 2,4,6

A cell is measured again when its examples, its number of epochs or the weights of its encoder have changed. Other
numbers of labels or of scored examples are rows of their own.

model2vec distils with the help of `skeletoken`: `pip install model2vec; pip install --no-deps "skeletoken<0.7"`. (Its
extra `distill` asks for an older transformers, which is not needed for this.)
"""

import argparse
import gzip
import hashlib
import json
import shutil
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import litebert
from harness import machine, record
from litebert.baselines.ladder import make_rung
from litebert.baselines.overlap import BagSimilarity, IdfSimilarity
from litebert.baselines.vectors import EncoderVectors, make_frozen
from litebert.errors import LitebertError
from litebert.folders import write_json
from litebert.hub import resolve
from litebert.inference.load import TruncationWarning
from litebert.runtime import prepare_process
from litebert.tasks.kinds import kind_of
from litebert.tasks.linear import WordTable
from litebert.tasks.metrics import compute_metrics, measure_majority
from litebert.tasks.readers.sources import OwnData, hold_out, read_official, read_own
from litebert.tasks.task import Columns, Dataset, Example, Predictions, Recipe, Task, TextExample, hash_examples
from litebert.training.job import ProgressEvent
from litebert.training.run_folder import RunFolder

TASKS = ("sst-2", "mrpc", "sts-b", "qqp", "imdb", "nsmc", "chnsenticorp")
GLUE_TASKS = TASKS[:4]
MAJORITY, WORDS, TFIDF = SIMPLE = ("majority", "bag-of-words", "tf-idf")
STATIC, FROZEN, MIXED, TUNED, BESIDE = "model2vec", "frozen", "frozen+tf-idf", "fine-tuned", "fine-tuned+tf-idf"
NONE, ALL = "none", "all"
EPOCHS = {200: 20.0, 1000: 8.0}  # up to so many labels; with more of them, 3
STATIC_SIZE = 256
SCORED_SEED = 0
STRENGTHS = np.logspace(-5, 1, 7)  # C of the logistic regression, on features of deviation 1
PENALTIES = np.logspace(-1, 5, 13)  # alpha of the ridge regression
FOLDS, MOST_FOLDED = 5, 5000  # C is chosen on so many examples at most
PATIENCE = 60.0  # seconds without a word
LONGEST = 2000  # characters of a text that take time, about: the rest is cut

Vectors = NDArray[np.float32]
Embed = Callable[[list[str]], Vectors]


# --- tasks and their examples -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Some examples of a task, and what identifies them."""

    examples: tuple[TextExample, ...]

    @classmethod
    def of(cls, examples: Iterable[Example]) -> "Sample":
        """All examples of a split."""
        return cls(tuple(one for one in examples if isinstance(one, TextExample)))

    @cached_property
    def hash(self) -> str:
        return hash_examples(self.examples)[:16]

    @cached_property
    def characters(self) -> int:
        """About how much there is to read."""
        return sum(min(LONGEST, len(one.text) + len(one.pair or "")) for one in self.examples)


def read_task(name: str, data: Path) -> Dataset:
    """A task as a user's own table would be, with its recipe; what is scored is called dev, whatever file it is of."""
    if name in GLUE_TASKS:
        read = read_official(name, data / "glue", ["train", "dev"])
    elif name == "imdb":
        train, test = ([*read_reviews(data / "imdb" / f"{split}.jsonl.gz")] for split in ("train", "test"))
        read = read_own(OwnData(train, dev=test, kind="classification"))
    elif name == "nsmc":
        read = read_tables(data / "nsmc", "test", Columns(text="document"), header=True)
    else:  # its test file has no labels
        read = read_tables(data / "chnsenticorp", "dev", Columns(text="1", label="2"), header=False)
    task = read.task.model_copy(update={"name": name, "recipe": Recipe()})
    return Dataset(task, read.splits, read.num_skipped)


def read_reviews(file: Path) -> Iterable[dict[str, str]]:
    """IMDB's reviews, whose ids say what they are: train/pos/1_8."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            review = json.loads(line)
            yield {"text": review["text"], "label": review["id"].split("/")[1]}


def read_tables(folder: Path, scored: str, columns: Columns, header: bool) -> Dataset:
    """The table train.tsv of a folder and the one that is scored, compressed or not."""
    train, dev = (next(folder.glob(f"{split}.tsv*")) for split in ("train", scored))
    return read_own(OwnData(train, dev=dev, kind="classification", columns=columns, header=header), skip_bad=True)


def draw(whole: Sample, count: int | None, seed: int) -> Sample:
    """So many examples, of each class (or rounded score) its share; fewer ones are among the more of the same seed."""
    examples = whole.examples
    if count is None or count >= len(examples):
        return whole
    order: list[int] = np.random.default_rng(seed).permutation(len(examples)).tolist()
    classes: dict[object, list[int]] = defaultdict(list)
    for number in order:
        label = examples[number].label
        classes[round(label) if isinstance(label, float) else label].append(number)
    ranks = [((at + 0.5) / len(members), number) for members in classes.values() for at, number in enumerate(members)]
    return Sample(tuple(examples[number] for _, number in sorted(ranks)[:count]))


# --- contestants --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contestant:
    """A way to solve a task: `method` is how, `source` the folder of its encoder, `weights` a hash of that."""

    name: str
    method: str
    source: str = ""
    weights: str = ""

    @property
    def handles(self) -> set[str]:
        """What may be said for it: its encoder, its method, or both."""
        encoder = self.name.partition(",")[0]
        return {encoder, self.method, f"{encoder}:{self.method}"}


def list_contestants(models: Sequence[str], teacher: str | None) -> list[Contestant]:
    """All of them, in the order of the table's columns."""
    found = [Contestant(name, name) for name in SIMPLE]
    if teacher:
        folder = resolve(teacher)
        found.append(Contestant(STATIC, FROZEN, str(folder), f"{hash_folder(folder)}-{version('model2vec')}"))
    for model in models:
        name, _, source = model.rpartition("=")
        name, folder = name or Path(source).name, resolve(source)
        for method in (FROZEN, MIXED, TUNED, BESIDE):
            found.append(Contestant(f"{name}, {method}", method, str(folder), hash_folder(folder)))
    return found


def choose(contestants: Sequence[Contestant], wanted: Sequence[str]) -> list[Contestant]:
    """Those that are named; all, if none is."""
    known = {handle for one in contestants for handle in one.handles}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"there is no contestant {unknown[0]}: choose from {', '.join(sorted(known))}")
    return [one for one in contestants if not wanted or one.handles & {*wanted}]


@cache
def hash_folder(folder: Path) -> str:
    """What identifies an encoder: its configuration, weights and tokenizer."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*")):
        if file.name in ("config.json", "tokenizer.json", "spiece.model") or file.suffix in (".safetensors", ".bin"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


class Embedder:
    """Vectors of length 1 from one encoder. Each text is embedded once; the time is shared out by characters."""

    def __init__(self, embed: Embed, num_parameters: int, words: WordTable | None = None) -> None:
        self._embed, self.num_parameters, self.words = embed, num_parameters, words
        self._known: dict[str, Vectors] = {}
        self._seconds, self._characters = 0.0, 0

    def embed(self, texts: Sequence[str]) -> tuple[Vectors, float]:
        """The vectors, and what it takes to embed the texts at the mean rate so far."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            begun = time.perf_counter()
            found = self._embed(new)
            self._seconds += time.perf_counter() - begun
            self._characters += sum(map(_count_characters, new))
            lengths = np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
            self._known.update(zip(new, found / lengths, strict=True))
        seconds = self._seconds * sum(map(_count_characters, texts)) / self._characters
        return np.stack([self._known[text] for text in texts]), seconds


def _count_characters(text: str) -> int:
    return 1 + min(LONGEST, len(text))


def open_embedder(contestant: Contestant, out: Path, depth: int | None = None) -> Embedder:
    """The encoder of a contestant, or model2vec's distillation of it."""
    if contestant.name == STATIC:
        return open_static(contestant, out)
    encoder = litebert.load(contestant.source)

    def embed(texts: list[str]) -> Vectors:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)
            return encoder.embed(texts, depth=depth)

    return Embedder(embed, encoder.members[0].engine.num_bytes // 4, encoder.members[0].words)


def open_static(contestant: Contestant, out: Path) -> Embedder:
    """Static vectors from the teacher with model2vec's defaults, distilled once and kept."""
    from model2vec import StaticModel

    folder = out / f"model2vec-{contestant.weights}"
    if not folder.is_dir():
        from model2vec.distill import distill  # needs more libraries than the vectors do

        begun = time.perf_counter()
        model = distill(model_name=contestant.source, pca_dims=STATIC_SIZE)
        print(f"model2vec distilled the teacher in {time.perf_counter() - begun:.0f} s", flush=True)
        draft = folder.with_name(f"{folder.name}.partial")
        model.save_pretrained(draft)
        draft.rename(folder)
    opened = StaticModel.from_pretrained(folder)  # kept as float16
    return Embedder(lambda texts: np.asarray(opened.encode(texts), np.float32), int(opened.embedding.size))


# --- cells --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One figure of the table: who learnt what from how many labels, drawn with which seed."""

    task: Task
    labels: str
    seed: int
    contestant: Contestant
    train: Sample
    scored: Sample
    depth: int | None = None
    """Of the plain cosine alone: so many passes instead of the encoder's own number."""

    def __str__(self) -> str:
        drawn = "no labels" if self.labels == NONE else f"{self.num_train:,} labels, seed {self.seed}"
        depth = "" if self.depth is None else f" at depth {self.depth}"
        return f"{self.task.name}, {drawn}: {self.contestant.name}{depth}"

    @property
    def num_train(self) -> int:
        """How many labels are learnt from."""
        return 0 if self.labels == NONE else len(self.train.examples)

    @property
    def epochs(self) -> float | None:
        """How often a fine-tuned encoder sees each example."""
        if self.contestant.method != TUNED:
            return None
        return next((epochs for most, epochs in EPOCHS.items() if self.num_train <= most), 3.0)

    @property
    def conditions(self) -> dict[str, Any]:
        """What must be the same for a figure to be kept."""
        return {
            "train": self.train.hash,
            "scored": self.scored.hash,
            "weights": self.contestant.weights,
            "epochs": self.epochs,
        }

    @property
    def work(self) -> float:
        """Characters to read, forward; learning from one costs as much as reading three."""
        train = self.train.characters * (3 * self.epochs if self.epochs else self.labels != NONE)
        return 1.0 + train + self.scored.characters

    @property
    def stem(self) -> str:
        """A name for files."""
        sizes = f"{self.num_train}-{len(self.scored.examples)}"
        depth = "" if self.depth is None else f"-depth-{self.depth}"
        return f"{sizes}-seed-{self.seed}-{self.contestant.name.replace(', ', '-')}{depth}"

    def file(self, out: Path) -> Path:
        """Where the figure is kept."""
        return out / "cells" / self.task.name / f"{self.stem}.json"

    def is_done(self, out: Path) -> bool:
        """Whether the figure is there, and of the same examples and weights."""
        file = self.file(out)
        return file.is_file() and json.loads(file.read_text(encoding="utf-8"))["conditions"] == self.conditions


def plan_cells(data: Dataset, contestants: Sequence[Contestant], options: argparse.Namespace) -> list[Cell]:
    """All cells of a task, contestant by contestant; what chance has no part in is measured once.

    Where pairs are rated, the cosine of vectors or of bags of words needs no labels.
    """
    task, whole = data.task, Sample.of(data.splits["train"])
    scored = draw(Sample.of(data.splits["dev"]), options.most_scored, SCORED_SEED)
    samples = {
        labels: [draw(whole, count, seed) for seed in range(options.seeds)]
        for labels, count in count_labels(options.labels, options.most_train, len(whole.examples)).items()
    }
    cells: list[Cell] = []
    for one in contestants:
        if one.method == BESIDE and not task.labels:  # words are counted for classes
            continue
        has_plain = not task.labels and task.is_pair and one.method not in (MIXED, TUNED, BESIDE, MAJORITY)
        plain = [Cell(task, NONE, 0, one, whole, scored)] if has_plain else []
        cells += plain
        for labels, drawn in samples.items():
            is_once = one.method not in (TUNED, BESIDE) and len({sample.hash for sample in drawn}) == 1
            seeds = range(1 if is_once else options.seeds)
            cells += [Cell(task, labels, seed, one, drawn[seed], scored) for seed in seeds]
        if one.method == FROZEN and one.name != STATIC:  # last, because other depths have other vectors
            cells += [replace(cell, depth=depth) for cell in plain for depth in options.depths]
    return cells


def count_labels(wanted: Sequence[str], most: int | None, there: int) -> dict[str, int]:
    """How many labels are learnt from, by what that is called; no number comes twice, none is more than there are."""
    counts = {labels: int(labels) for labels in wanted if labels != ALL and int(labels) < there}
    whole = there if most is None else min(most, there)
    return counts | ({ALL: whole} if ALL in wanted and whole not in counts.values() else {})


def order_cells(cells: Iterable[Cell], labels: Sequence[str]) -> list[Cell]:
    """What is quick first, each encoder at one go for each task; then fine-tuning, with few labels first."""
    amounts = [NONE, *labels]

    def rank(cell: Cell) -> tuple[bool, int, int]:
        is_tuned = cell.contestant.method == TUNED
        return is_tuned, amounts.index(cell.labels) if is_tuned else 0, cell.seed if is_tuned else 0

    return sorted(cells, key=rank)  # stable


# --- what each contestant does ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Metrics on the scored examples, seconds of learning and answering, and the size of what was needed."""

    metrics: dict[str, float]
    seconds: float
    num_parameters: int | None = None


def run_simple(cell: Cell) -> Outcome:
    """A rung of `litebert.baselines`."""
    kind, name = kind_of(cell.task), cell.contestant.name
    begun = time.perf_counter()
    if cell.labels == NONE:
        metrics = score(cell, compare_words(cell))
    elif name == MAJORITY:
        metrics = measure_majority(cell.task, cell.train.examples, cell.scored.examples)
    else:
        rung = make_rung(name, kind.answer_type, cell.seed)
        targets = [kind.baseline_target(one) for one in cell.train.examples]
        rung.fit([kind.inputs(one) for one in cell.train.examples], targets)
        metrics = score(cell, rung.predict([kind.inputs(one) for one in cell.scored.examples]))
    return Outcome(metrics, time.perf_counter() - begun)


def compare_words(cell: Cell) -> list[float]:
    """The cosine of each pair's bags of words; how rare a word is can be learnt without labels."""
    similarity = BagSimilarity() if cell.contestant.name == WORDS else IdfSimilarity()
    similarity.fit([text for one in cell.train.examples for text in (one.text, one.pair or "")])
    return [similarity.compare(one.text, [one.pair or ""])[0] for one in cell.scored.examples]


def run_frozen(cell: Cell, embedder: Embedder) -> Outcome:
    """The cosine alone, or a linear model on the vectors."""
    features, seconds = make_features(cell.scored, embedder)
    if cell.labels == NONE:
        return Outcome(score(cell, features[:, -1].tolist()), seconds, embedder.num_parameters)
    learnt, more_seconds = make_features(cell.train, embedder)
    kind = kind_of(cell.task)
    targets = [kind.baseline_target(one) for one in cell.train.examples]
    begun = time.perf_counter()
    model = fit_linear(learnt, targets, bool(cell.task.labels), cell.seed)
    metrics = score(cell, model.predict(features).tolist())
    return Outcome(metrics, seconds + more_seconds + time.perf_counter() - begun, embedder.num_parameters)


def run_mixed(cell: Cell, embedder: Embedder) -> Outcome:
    """The rung of `litebert compare` that has vectors and tf-idf."""
    kind, seconds = kind_of(cell.task), 0.0

    def embed(texts: list[str]) -> Vectors:
        nonlocal seconds
        begun = time.perf_counter()
        vectors, cost = embedder.embed(texts)
        seconds += cost - (time.perf_counter() - begun)
        return vectors

    begun = time.perf_counter()
    rung = make_frozen(EncoderVectors(embed, 0, embedder.words), kind.answer_type, words=True, seed=cell.seed)
    targets = [kind.baseline_target(one) for one in cell.train.examples]
    rung.fit([kind.inputs(one) for one in cell.train.examples], targets)
    metrics = score(cell, rung.predict([kind.inputs(one) for one in cell.scored.examples]))
    return Outcome(metrics, seconds + time.perf_counter() - begun, embedder.num_parameters)


def make_features(sample: Sample, embedder: Embedder) -> tuple[Vectors, float]:
    """The vectors of texts; of pairs, difference, product and cosine. And the seconds of embedding."""
    texts = [one.text for one in sample.examples]
    pairs = [one.pair for one in sample.examples if one.pair is not None]
    vectors, seconds = embedder.embed([*texts, *pairs])
    if not pairs:
        return vectors, seconds
    first, second = np.split(vectors, 2)
    product = first * second
    return np.hstack([abs(first - second), product, product.sum(1, keepdims=True)]), seconds


def fit_linear(features: Vectors, targets: Sequence[Any], is_classes: bool, seed: int) -> Any:
    """Logistic or ridge regression, as strict as cross-validation on these examples finds best."""
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if not is_classes:
        return make_pipeline(StandardScaler(), RidgeCV(PENALTIES)).fit(features, targets)

    def make(strength: float) -> Any:
        return make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))

    some = np.random.default_rng(seed).permutation(len(targets))[:MOST_FOLDED]
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    found, right = features[some], np.asarray(targets)[some]
    likelihoods = [
        cross_val_score(make(strength), found, right, cv=folds, scoring="neg_log_loss").mean() for strength in STRENGTHS
    ]
    return make(STRENGTHS[int(np.argmax(likelihoods))]).fit(features, targets)


def run_tuned(cell: Cell, out: Path) -> Outcome:
    """`litebert.finetune`; the checkpoint is chosen on a tenth of the labels, as for a user's own table."""
    task, contestant = cell.task, cell.contestant
    learnt, dev = hold_out(task, cell.train.examples, cell.seed)
    key = hashlib.sha256(json.dumps(cell.conditions).encode()).hexdigest()[:8]
    folder = out / "runs" / f"{task.name}-{cell.stem}-{key}"
    result = litebert.finetune(
        Dataset(task, {"train": learnt, "dev": dev}),
        model=contestant.source,
        out=folder,
        epochs=cell.epochs,
        seed=cell.seed,
        tf_idf=contestant.method == BESIDE,
        resume=RunFolder(folder).exists,
        report=False,
        on_step=tell_progress(cell),
    )
    if result.status == "interrupted":
        raise KeyboardInterrupt
    begun = time.perf_counter()
    metrics = result.pipeline.evaluate(cell.scored.examples).metrics
    seconds = result.seconds + time.perf_counter() - begun
    num_parameters = result.pipeline.members[0].engine.num_bytes // 4
    shutil.rmtree(folder)
    return Outcome(metrics, seconds, num_parameters)


def tell_progress(cell: Cell) -> Callable[[ProgressEvent], None]:
    """Make the function that says once in a while how far a long run is."""
    said = time.monotonic()

    def tell(event: ProgressEvent) -> None:
        nonlocal said
        if time.monotonic() - said >= PATIENCE:
            said = time.monotonic()
            print(f"  {cell}: {event.progress:.0%} after {event.seconds / 60:.0f} minutes", flush=True)

    return tell


def score(cell: Cell, answers: Sequence[Any]) -> dict[str, float]:
    """The metrics of a baseline's answers."""
    predictions = Predictions(tuple(map(kind_of(cell.task).read_baseline, answers)))
    return compute_metrics(cell.task, cell.scored.examples, predictions)


# --- running ------------------------------------------------------------------------------------------------------


class Runner:
    """Runs cells and keeps what comes out; one encoder is open at a time, with the vectors of one task."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._open: tuple[object, Embedder] | None = None

    def run(self, cell: Cell) -> dict[str, Any]:
        """Measure a cell."""
        method = cell.contestant.method
        embedder = self._embedder(cell) if method in (FROZEN, MIXED) else None
        begun = time.perf_counter()
        if embedder is not None:
            outcome = run_frozen(cell, embedder) if method == FROZEN else run_mixed(cell, embedder)
        elif cell.contestant.method in SIMPLE:
            outcome = run_simple(cell)
        else:
            self._open = None  # its memory is wanted
            outcome = run_tuned(cell, self._out)
        result = {
            "task": cell.task.name,
            "metric": cell.task.metric,
            "labels": cell.labels,
            "num_train": cell.num_train,
            "num_scored": len(cell.scored.examples),
            "seed": cell.seed,
            "depth": cell.depth,
            "contestant": cell.contestant.name,
            "method": cell.contestant.method,
            **asdict(outcome),
            "work": cell.work,
            "spent": time.perf_counter() - begun,
            "finished": time.time(),
            "conditions": cell.conditions,
        }
        cell.file(self._out).parent.mkdir(parents=True, exist_ok=True)
        write_json(cell.file(self._out), result)
        return result

    def _embedder(self, cell: Cell) -> Embedder:
        key = (cell.task.name, cell.contestant.name == STATIC, cell.contestant.source, cell.depth)
        if self._open is None or self._open[0] != key:
            self._open = None
            self._open = (key, open_embedder(cell.contestant, self._out, cell.depth))
        return self._open[1]


def estimate(cells: Iterable[Cell], done: Sequence[dict[str, Any]]) -> float:
    """Seconds that cells will take, by what those took that are done: of the contestant, or of its method."""
    paces: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for result in done:
        for name in (result["contestant"], result["method"]):
            paces[name][0] += result["spent"]
            paces[name][1] += result["work"]
    guess = dict.fromkeys(
        (FROZEN, MIXED, TUNED, BESIDE), 1e-4
    )  # seconds a character, of a small encoder on a slow core

    def pace(one: Contestant) -> float:
        known = next((paces[name] for name in (one.name, one.method) if name in paces), None)
        return guess.get(one.method, 1e-6) if known is None else known[0] / known[1]

    return sum(pace(cell.contestant) * cell.work for cell in cells)


def run_cells(cells: Sequence[Cell], out: Path) -> None:
    """Run what is not done yet, and say how it goes."""
    waiting = [cell for cell in cells if not cell.is_done(out)]
    results, runner = read_results(out), Runner(out)
    left = estimate(waiting, results)
    print(f"{len(cells) - len(waiting)} of {len(cells)} cells are done; about {left / 60:.0f} minutes left", flush=True)
    for number, cell in enumerate(waiting, 1):
        try:
            result = runner.run(cell)
        except (LitebertError, ImportError) as error:  # a depth that an encoder does not have, a missing library
            print(f"{number}/{len(waiting)} {cell} could not be run: {error}", flush=True)
            continue
        results.append(result)
        left = estimate(waiting[number:], results)
        value, seconds = 100 * result["metrics"][result["metric"]], result["seconds"]
        print(
            f"{number}/{len(waiting)} {cell} {result['metric']} {value:.1f} in {seconds:.1f} s; "
            f"about {left / 60:.0f} minutes left",
            flush=True,
        )


def read_results(out: Path) -> list[dict[str, Any]]:
    """All that is kept, in the order of tasks; of an encoder whose weights have changed, the newest ones alone."""
    files = sorted((out / "cells").glob("*/*.json"), key=lambda file: TASKS.index(file.parent.name))
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    newest = {one["contestant"]: one["conditions"]["weights"] for one in sorted(results, key=_finished)}
    return [one for one in results if one["conditions"]["weights"] == newest[one["contestant"]]]


def _finished(result: dict[str, Any]) -> float:
    return float(result["finished"])


# --- the table ----------------------------------------------------------------------------------------------------

ABOUT = """\
Metrics × 100, higher is better; the mean over seeds, in brackets the lowest and the highest; the best of each row is
bold. All contestants of a row learnt from the same labels, drawn with the seed, of each class its share, and were
scored on the same examples. "Frozen" is a logistic (or ridge) regression on the encoder's vectors, of pairs on
[|u-v|, u·v, cosine]; its strength is chosen by cross-validation on the labels. "Frozen+tf-idf" is the rung of
`litebert compare` that has these vectors, those of the encoder's word table, and tf-idf: a fixed strength, and a weight
of the vectors by cross-validation. "Fine-tuned" is `litebert.finetune` with its defaults for a user's own table, 20
epochs of up to 200 labels, 8 of up to 1,000, 3 of more; a tenth of the labels is set aside to choose the checkpoint by.
"Fine-tuned+tf-idf" is the same with `--tf-idf`. A row without labels is the plain cosine of two vectors."""
TIMES = """\
Seconds of learning and answering, all examples of the row together, the mean over seeds. Vectors that several cells
share are counted for each of them; the distillation of model2vec is not counted. Other work may have run beside it."""


@dataclass(frozen=True)
class Row:
    """A row of the table: the results of each contestant."""

    task: str
    metric: str
    num_train: int
    num_scored: int
    results: dict[str, list[dict[str, Any]]]

    @property
    def title(self) -> str:
        labels = f"{self.num_train:,}" if self.num_train else "no"
        return f"{self.task}, {self.metric} | {labels} / {self.num_scored:,}"

    def values(self, name: str) -> list[float]:
        """What a contestant got with each seed."""
        return [100 * one["metrics"][self.metric] for one in self.results.get(name, [])]

    def mean(self, name: str) -> float | None:
        """The same in one number."""
        values = self.values(name)
        return statistics.fmean(values) if values else None

    def best(self, names: Iterable[str]) -> float | None:
        """The best mean of some contestants."""
        return max((mean for name in names if (mean := self.mean(name)) is not None), default=None)

    def show(self, name: str) -> str:
        """A cell of the table; of one that lacks seeds, how many it has."""
        values, mean = self.values(name), self.mean(name)
        if mean is None:
            return "–"
        mark = "**" if mean == self.best(self.results) else ""
        low, high = f"{min(values):.1f}", f"{max(values):.1f}"
        spread = f" ({low}–{high})" if low != high else ""
        lacks = f", {len(values)} of {self.num_seeds} seeds" if len(values) < self._seeds_of(name) else ""
        return f"{mark}{mean:.1f}{mark}{spread}{lacks}"

    @property
    def num_seeds(self) -> int:
        """The most that any contestant has."""
        return max(map(len, self.results.values()))

    def _seeds_of(self, name: str) -> int:
        drawn = {one["conditions"]["train"] for found in self.results.values() for one in found}
        return self.num_seeds if len(drawn) > 1 or self.results[name][0]["method"] == TUNED else 1

    def show_seconds(self, name: str) -> str:
        """What it took."""
        found = [one["seconds"] for one in self.results.get(name, [])]
        return f"{float(f'{statistics.fmean(found):.2g}'):,g}" if found else "–"


def make_rows(results: Sequence[dict[str, Any]]) -> list[Row]:
    """Results that learnt from as many examples and were scored on the same ones, side by side."""
    groups: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for one in results:
        key = (TASKS.index(one["task"]), one["num_train"], one["num_scored"], one["conditions"]["scored"])
        groups[key][one["contestant"]].append(one)
    rows = []
    for key, found in sorted(groups.items()):
        metric = next(iter(found.values()))[0]["metric"]
        rows.append(Row(TASKS[key[0]], metric, key[1], key[2], dict(found)))
    return rows


def count_wins(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """On how many rows an encoder beats what needs none, and the static vectors."""
    encoders: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if name not in (*SIMPLE, STATIC):
            encoders[name.rpartition(",")[0]].append(name)
    static = _count(rows, [STATIC], SIMPLE, "the best simple rung")
    lines = [f"- **{STATIC}** beats {static}."] if static else []
    for encoder, ways in encoders.items():
        sides = [([way], way) for way in ways] + (
            [(ways, f"{encoder}, the best of these (known afterwards only)")] if len(ways) > 1 else []
        )
        for side, title in sides:
            against = [_count(rows, side, SIMPLE, "the best simple rung"), _count(rows, side, [STATIC], STATIC)]
            known = [one for one in against if one]
            lines += [f"- **{title}** beats {', '.join(known)}."] if known else []
    return lines


def _count(rows: Sequence[Row], ours: Sequence[str], others: Sequence[str], what: str) -> str:
    pairs = [(row.best(ours), row.best(others)) for row in rows]
    known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    return f"{what} on {sum(mine > theirs for mine, theirs in known)} of {len(known)} rows" if known else ""


def render_depths(results: Sequence[dict[str, Any]]) -> str:
    """The plain cosine at other depths than the encoder's own."""
    lines = ["The plain cosine of the frozen encoder at other depths:", ""]
    lines += ["| task | encoder | passes | metric | seconds |", "|-" * 5 + "|"]
    for one in sorted(results, key=lambda one: (one["contestant"], one["depth"])):
        value = f"{one['metric']} {100 * one['metrics'][one['metric']]:.1f}"
        lines.append(f"| {one['task']} | {one['contestant']} | {one['depth']} | {value} | {one['seconds']:.1f} |")
    return "\n".join(lines)


def order_names(results: Sequence[dict[str, Any]]) -> list[str]:
    """The names of all contestants: simple ones, static vectors, encoders in the order of their names."""
    first = [*SIMPLE, STATIC]
    rank = {name: number for number, name in enumerate(first)}
    there = {one["contestant"] for one in results}
    methods = (FROZEN, MIXED, TUNED, BESIDE)

    def order(name: str) -> tuple[int, str, int]:
        encoder, _, method = name.rpartition(", ")
        return rank.get(name, len(first)), encoder, methods.index(method) if method in methods else 0

    return sorted(there, key=order)


def describe_sizes(results: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    """Parameters of each encoder."""
    sizes = {one["contestant"]: one["num_parameters"] for one in results if one["method"] == FROZEN}
    shown = [f"{name.partition(',')[0]} {sizes[name] / 1e6:.1f} M" for name in names if name in sizes]
    return f"Parameters: {', '.join(shown)}." if shown else ""


def render(results: Sequence[dict[str, Any]]) -> str:
    """What each got, how often encoders win, what it took; and other depths, if they were asked for."""
    plain, deep = [one for one in results if one["depth"] is None], [one for one in results if one["depth"] is not None]
    rows, names = make_rows(plain), order_names(plain)
    head = f"| task | labels / scored | {' | '.join(names)} |\n" + "|-" * (len(names) + 2) + "|\n"
    quality = head + "\n".join(f"| {row.title} | {' | '.join(map(row.show, names))} |" for row in rows)
    seconds = head + "\n".join(f"| {row.title} | {' | '.join(map(row.show_seconds, names))} |" for row in rows)
    wins = "\n".join(count_wins(rows, names))
    parts = [ABOUT, describe_sizes(plain, names), quality, wins, TIMES, seconds, render_depths(deep) if deep else ""]
    return "\n\n".join(filter(None, parts))


# --- the command --------------------------------------------------------------------------------------------------


def write_table(out: Path) -> None:
    """Write the table of all that is kept."""
    results = read_results(out)
    if not results:
        return
    libraries = ["scikit-learn", *(["model2vec"] if any(one["contestant"] == STATIC for one in results) else [])]
    facts = machine() | {name: version(name) for name in libraries}
    table = render(results)
    print(f"\n{table}\n")
    summary = [
        {"task": row.task, "metric": row.metric, "num_train": row.num_train, "num_scored": row.num_scored}
        | {"contestants": {name: {"mean": row.mean(name), "values": row.values(name)} for name in row.results}}
        for row in make_rows([one for one in results if one["depth"] is None])
    ]
    data = {"machine": facts, "rows": summary, "cells": results}
    print(record("usefulness", "What an encoder is worth with few labels", table, data))


def split_words(value: str) -> list[str]:
    """Words between commas."""
    return [word.strip() for word in value.split(",") if word.strip()]


def parse_options() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", default=[], help="NAME=FOLDER of an encoder, or its name alone")
    parser.add_argument("--teacher", help="the folder of the encoder that model2vec distils")
    parser.add_argument("--data", type=Path, required=True, help="the folder that holds glue, imdb, nsmc, chnsenticorp")
    parser.add_argument("--out", type=Path, required=True, help="a folder that keeps what is done")
    parser.add_argument("--labels", type=split_words, default=["200", "1000", ALL], help="how many, with commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most-train", type=int, help="take no more than so many for `all`")
    parser.add_argument("--most-scored", type=int, help="score no more than so many")
    parser.add_argument("--only", type=split_words, default=[*TASKS], help="tasks, with commas")
    parser.add_argument(
        "--contestants",
        type=split_words,
        default=[],
        help="encoders, methods (frozen, fine-tuned, tf-idf …) or both (litebert-en:frozen), with commas",
    )
    parser.add_argument("--depths", type=split_words, default=[], help="numbers of passes, with commas")
    options = parser.parse_args()
    unknown = [name for name in options.only if name not in TASKS]
    if unknown:
        parser.error(f"there is no task {unknown[0]}: choose from {', '.join(TASKS)}")
    if any(labels != ALL and not labels.isdecimal() for labels in options.labels):
        parser.error("--labels takes numbers and `all`, with commas")
    options.depths = [int(depth) for depth in options.depths]
    return options


def main() -> None:
    options = parse_options()
    prepare_process()
    warnings.filterwarnings("ignore", category=FutureWarning)
    contestants = choose(list_contestants(options.model, options.teacher), options.contestants)
    cells = [
        cell
        for name in TASKS
        if name in options.only
        for cell in plan_cells(read_task(name, options.data), contestants, options)
    ]
    try:
        run_cells(order_cells(cells, options.labels), options.out)
    except KeyboardInterrupt:
        print("interrupted: the same command goes on where it was")
    finally:
        write_table(options.out)


if __name__ == "__main__":
    main()
