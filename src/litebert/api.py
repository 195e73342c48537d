"""What users call: from text to a trained encoder, and from an encoder and examples to a model that answers.

Every command is a thin layer on one of these functions, and arguments have the names of the command's options. Each
returns a small object, so that nothing has to be read back from files. `load` (in `litebert.inference`) opens what they
make.

    litebert.train_tokenizer("books/", out="my-tokenizer")
    litebert.prepare("books/", tokenizer="my-tokenizer", out="my-corpus")
    litebert.pretrain("my-corpus", budget="2h", out="my-run")
    run = litebert.finetune("reviews.csv", text="review", label="stars", model="my-run")
    run.metrics, run.predict("what a film"), litebert.load(run.folder)
"""

import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from litebert.corpus import prepare as preparation
from litebert.corpus.corpus import Corpus
from litebert.distillation import compress as compression
from litebert.distillation.config import DistillConfig
from litebert.distillation.job import RatedPairs
from litebert.distillation.job import distill as run_distillation
from litebert.distillation.settings import (
    DISTILL_OPTIONS,
    choose_distillation,
    read_teacher,
    resume_distillation,
)
from litebert.errors import LitebertError, RequestError
from litebert.folders import MANIFEST, remove_folder
from litebert.hub import DEFAULT_ENCODER
from litebert.inference.lines import read_lines
from litebert.inference.load import Pipeline, load
from litebert.lab.experiment import open_experiment
from litebert.lab.grid import Grid, GridEvent, GridOptions, GridResult, plan_grid, read_settled, run_grid
from litebert.lab.measures import read_task
from litebert.lab.results import write_outputs
from litebert.lab.scales import find_scale
from litebert.model.head_kinds import EXIT_HEADS
from litebert.presets import PRESETS
from litebert.pretraining.job import pretrain as run_pretraining
from litebert.pretraining.settings import PRETRAIN_OPTIONS, choose_pretraining, resume_pretraining
from litebert.quantities import parse_duration
from litebert.runtime import num_cores
from litebert.tasks.config import choose_length, configure, measure_volume
from litebert.tasks.finetune import balance_classes, open_encoder
from litebert.tasks.finetune import finetune as run_finetuning
from litebert.tasks.kinds import KINDS, kind_of
from litebert.tasks.metrics import LOWER_IS_BETTER, Evaluation
from litebert.tasks.readers.known import Examples, read_rated_examples, read_task_examples
from litebert.tasks.readers.libraries import collect_libraries, write_library_task
from litebert.tasks.readers.sources import (
    OFFICIAL,
    OwnData,
    explain_missing,
    read_examples,
    read_official,
    read_own,
    stem_of,
)
from litebert.tasks.saved import TASK_FILE, read_saved_task
from litebert.tasks.task import Columns, Dataset, Example
from litebert.text.documentation import documents
from litebert.text.formats import format_of
from litebert.text.records import RecordSource
from litebert.text.sources import Reader, open_sources
from litebert.text.tokenizer import Tokenizer
from litebert.text.vocabulary import train_tokenizer
from litebert.training.job import Interrupted, OnMessage, OnStep, RunResult
from litebert.training.run_folder import RunFolder
from litebert.training.settings import SettingsSource, apply_settings, read_settings

if TYPE_CHECKING:
    from litebert.baselines.fit import FitResult

__all__ = [
    "Examples",
    "FinetuneResult",
    "compress",
    "distill",
    "evaluate",
    "finetune",
    "fit",
    "open_fuel",
    "plan_experiments",
    "prepare",
    "pretrain",
    "read_data",
    "read_rated",
    "read_task_examples",
    "report_writer",
    "run_experiments",
]

PathLike = str | os.PathLike[str]
Result = TypeVar("Result", bound=RunResult | compression.CompressResult)


def _ignore(message: str) -> None:
    """Nobody listens."""


def _or_interrupt(result: Result, folder: Path) -> Result:
    """The result of a run that ended; of one that a signal stopped, none, so that no script goes on as if it had."""
    if result.signal is not None:
        raise Interrupted(result, str(folder))
    return result


def _take_options(function: str, options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The options that were given; one that does not exist is refused as Python would."""
    unknown = sorted({*options} - {*known})
    if unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}")
    return {name: value for name, value in options.items() if value is not None}


# --- from text to an encoder --------------------------------------------------------------------------------------


def prepare(
    sources: PathLike | Sequence[PathLike] | Reader,
    tokenizer: PathLike | Tokenizer,
    out: PathLike = "corpus",
    *,
    column: str | Sequence[str] = "text",
    deduplicate: bool = True,
    held_out: float = 0.01,
    shard_tokens: int = 1 << 23,
    workers: int | None = None,
    scheduler: str | None = None,
    skip_bad: bool = False,
    on_progress: Callable[[preparation.Summary], None] = lambda summary: None,
) -> Corpus:
    """Turn text into shards of ids, and open them. Interrupted, the same call goes on."""
    folder = Path(out)
    reader = sources if isinstance(sources, Reader) else open_sources(sources, column, skip_bad, folder)
    opened = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.from_pretrained(os.fspath(tokenizer))
    config = preparation.PrepareConfig(deduplicate=deduplicate, held_out=held_out, shard_tokens=shard_tokens)
    preparation.prepare(reader, opened, folder, config, workers or num_cores(), scheduler, on_progress)
    return Corpus.open(folder, verify=False)


def pretrain(
    corpus: PathLike | Corpus,
    out: PathLike = "run",
    *,
    config: SettingsSource = None,
    set: Sequence[str] = (),
    resume: bool = False,
    on_step: OnStep | None = None,
    on_message: OnMessage = _ignore,
    **options: Any,
) -> RunResult:
    """Pretrain an encoder on a corpus, into a run folder; with `resume`, go on from its newest whole checkpoint.

    Options are those of `litebert pretrain`: model, recipe, budget, steps, batch, length, objective, lr, optimizer,
    seed, micro_batch, precision, parallel, compiled, save_every, keep. `config` is a file (or a mapping) of settings,
    `set` are single ones such as "train.optim.lr=1e-3".
    """
    given = _take_options("pretrain", options, PRETRAIN_OPTIONS)
    opened = corpus if isinstance(corpus, Corpus) else Corpus.open(Path(corpus))
    folder = Path(out)
    chosen = (
        resume_pretraining(folder, opened, given, config, set)
        if resume
        else choose_pretraining(opened, given, config, set)
    )
    result = run_pretraining(opened, folder, chosen, resume=resume, on_step=on_step, on_message=on_message)
    return _or_interrupt(result, folder)


def distill(
    teacher: PathLike,
    text: PathLike | Sequence[PathLike] | Corpus = "builtin:documentation",
    out: PathLike = "distilled",
    *,
    rated: PathLike | None = None,
    tokenizer: PathLike | None = None,
    column: str | Sequence[str] = "text",
    skip_bad: bool = False,
    config: SettingsSource = None,
    set: Sequence[str] = (),
    resume: bool = False,
    report: bool = True,
    on_step: OnStep | None = None,
    on_message: OnMessage = _ignore,
    **options: Any,
) -> RunResult:
    """Teach a small encoder what a trained one makes of text: a BERT becomes an ALBERT of a quarter of its size.

    `teacher` is a model folder, a run or a hub name; `text` are files or folders, or a prepared corpus. The student has
    the teacher's word pieces unless a `tokenizer` is named. `rated` are pairs with scores, by which the vectors are
    measured on the way: STS-B's folder, or a file with the columns text, pair and label (or sentence1, sentence2,
    score). Options are those of `litebert distill`: model, budget, steps, batch, length, depths, dimensions, lr,
    optimizer, seed, micro_batch, precision, parallel, save_every, keep.
    """
    given = _take_options("distill", options, DISTILL_OPTIONS)
    folder, name = Path(out), os.fspath(teacher)
    read_teacher(name)  # before any text is cut, as all that can be wrong
    if resume:
        RunFolder(folder).read_config(DistillConfig)
    else:
        choose_distillation(name, None, given, config, set)
    corpus = open_fuel(text, tokenizer or name, folder, column, skip_bad, resume, on_message)
    if tokenizer is not None:
        corpus.check_tokenizer(os.fspath(tokenizer))
    chosen = (
        resume_distillation(folder, name, corpus, given, config, set)
        if resume
        else choose_distillation(name, corpus, given, config, set)
    )
    pairs = None if rated is None else read_rated(Path(rated))
    result = run_distillation(
        corpus, folder, chosen, rated=pairs, resume=resume, on_step=on_step, on_message=on_message
    )
    if report and os.environ.get("RANK", "0") == "0":
        from litebert.reports.pretraining import write_report

        result = replace(result, report=write_report(folder))
    return _or_interrupt(result, folder)


def compress(
    model: PathLike,
    method: str,
    out: PathLike = "compressed",
    *,
    blocks: int | None = None,
    layers: str | None = None,
    embedding_size: int | None = None,
    vocab_size: int | None = None,
    keep: float | None = None,
    keep_heads: float | None = None,
    text: PathLike | Sequence[PathLike] | Corpus = "builtin:documentation",
    column: str | Sequence[str] = "text",
    skip_bad: bool = False,
    heal: str | float | None = None,
    steps: int | None = None,
    set: Sequence[str] = (),
    resume: bool = False,
    on_step: OnStep | None = None,
    on_message: OnMessage = _ignore,
) -> compression.CompressResult:
    """Make a trained model smaller, into a new model folder with its tokenizer.

    `model` is a folder, a run or a hub name of a BERT or ALBERT. Its head stays where the method leaves it what it
    needs. The methods, and what they take:

    - share: `blocks` for all layers (3, if it fits): `layers` from the first to the last ("spread"), or the mean of
      those that a block stands for ("average").
    - low-rank: a word table of `embedding_size` (128).
    - trim: a vocabulary of `vocab_size` pieces (half of them), chosen by the `text`.
    - prune: `keep` a share of the feed-forward units (0.5), and `keep_heads` of the attention heads (all).
    - distill: a student is taught for the time `heal` (10m).
    - quantize: weights of eight bits.

    `heal` teaches the smaller model for a time what the original makes of the `text`; or for a number of `steps`. `set`
    are settings of that run, such as "train.optim.lr=1e-3". Interrupted, the same call goes on with `resume`.
    """
    given = {
        "blocks": blocks,
        "layers": layers,
        "embedding_size": embedding_size,
        "vocab_size": vocab_size,
        "keep": keep,
        "keep_heads": keep_heads,
    }
    options = {name: value for name, value in given.items() if value is not None}
    folder, name = Path(out), os.fspath(model)
    source, shape = read_teacher(name)
    compression.check_request(shape, method, options)
    saved = read_saved_task(source) if (source / TASK_FILE).is_file() else None
    if saved is not None and saved.linear is not None:
        raise RequestError(f"{name} was fitted to its encoder's vectors: compress the encoder first, then fit again")
    healing = compression.choose_healing(method, heal, steps, set)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RequestError(f"{folder} is not empty: choose another --out")
    if "RANK" in os.environ:
        raise RequestError("compression runs in one process: call it without torchrun")
    work = compression.HealingFolder.beside(folder)
    try:
        opened: Corpus | Reader
        if isinstance(text, Corpus) or healing is not None or _is_corpus(text):
            opened = open_fuel(text, name, work.run, column, skip_bad, resume, on_message)
            opened.check_tokenizer(name)
        else:
            opened = open_sources(text, column, skip_bad, folder)
        result = compression.compress(
            name,
            method,
            folder,
            options,
            opened,
            healing,
            text_name=_name_text(text),
            extra_files=None if saved is None else saved.as_files(),
            resume=resume,
            on_step=on_step,
            on_message=on_message,
        )
    except LitebertError:
        work.remove_unbegun()
        raise
    return _or_interrupt(result, folder)


def _is_corpus(text: PathLike | Sequence[PathLike]) -> bool:
    return isinstance(text, str | os.PathLike) and (Path(text) / MANIFEST).is_file()


def _name_text(text: PathLike | Sequence[PathLike] | Corpus) -> str:
    """What a text is called: the last part of each path."""
    if isinstance(text, Corpus):
        return text.folder.name
    names = [text] if isinstance(text, str | os.PathLike) else list(text)
    return ", ".join(Path(name).name for name in names)


def open_fuel(
    text: PathLike | Sequence[PathLike] | Corpus,
    tokenizer: PathLike,
    out: Path,
    column: str | Sequence[str] = "text",
    skip_bad: bool = False,
    resume: bool = False,
    on_message: OnMessage = _ignore,
) -> Corpus:
    """The text of a distillation as a corpus: one that is given, or one that is prepared in the folder of the run.

    What an earlier call prepared there is used again only by the run that it was prepared for.
    """
    if isinstance(text, Corpus):
        return text
    if isinstance(text, str | os.PathLike) and _is_corpus(text):
        return Corpus.open(Path(text))
    if tokenizer in PRESETS and not Path(tokenizer).is_dir():
        raise RequestError(f"{tokenizer} is a preset that has learnt nothing: name a trained model to learn from")
    prepared = RunFolder(out).corpus
    has_begun = any(RunFolder(out).checkpoints.glob("step-*"))
    if (prepared / MANIFEST).is_file() and not resume and not has_begun:
        remove_folder(prepared)  # of a call that failed before its first step, perhaps with other text
    if not (prepared / MANIFEST).is_file():
        if "RANK" in os.environ:
            raise RequestError("under torchrun the text must be a corpus: run `litebert prepare` first, and name it")
        on_message("cutting the text into word pieces")
        RunFolder(out).refuse_foreign()
        prepare(text, tokenizer, prepared, column=column, skip_bad=skip_bad)
    corpus = Corpus.open(prepared, verify=False)
    corpus.check_tokenizer(os.fspath(tokenizer))
    return corpus


def read_rated(path: Path) -> RatedPairs:
    """Pairs of texts with scores: STS-B's development set, or a file of your own."""
    rated = read_rated_examples(path)
    scores = [float(one.label) for one in rated if isinstance(one.label, int | float)]
    return RatedPairs([one.text for one in rated], [one.pair or "" for one in rated], scores, str(path))


# --- experiments --------------------------------------------------------------------------------------------------


def plan_experiments(
    experiments: str | Sequence[str],
    *,
    corpus: PathLike | None = None,
    text: PathLike | Sequence[PathLike] = "builtin:documentation",
    column: str | Sequence[str] = "text",
    more_text: PathLike | None = None,
    tasks: Sequence[str] | None = None,
    scale: str = "nano",
    seeds: int = 3,
    steps: int | None = None,
    budget: str | float | None = None,
    workers: int | None = None,
    threads: int = 1,
    scheduler: str | None = None,
    out: PathLike = "lab",
    dry_run: bool = False,
    on_message: OnMessage = _ignore,
) -> Grid:
    """Work out the cells of experiments, and prepare what they read; `run_experiments` says what the arguments are.

    A `dry_run` prepares nothing, and measures how long a step of each cell takes.
    """
    folder = Path(out)
    opened = dict(open_experiment(name) for name in ([experiments] if isinstance(experiments, str) else experiments))
    if budget is not None and steps is not None:
        raise RequestError("--budget and --steps both say how long cells train: leave one of them out")
    for name, one in opened.items():
        if one.scale is not None and one.trains and one.scale != scale:
            raise RequestError(f"{name} is for --scale {one.scale}")
    if corpus is not None and text != "builtin:documentation":
        raise RequestError("--corpus and --text both say what to read: leave one of them out")
    for entry in tasks or ():
        read_task(entry)  # what is wrong is said before anything runs
    options = GridOptions(
        corpus=folder / "corpus" if corpus is None else Path(corpus),
        more_text=None if more_text is None else Path(more_text),
        tasks=tuple(tasks or ()),
        scale=scale,
        seeds=seeds,
        steps=steps,
        budget=None if budget is None else parse_duration(budget) if isinstance(budget, str) else float(budget),
        workers=workers or num_cores(),
        threads=threads,
        scheduler=scheduler,
    )
    vocab_size = find_scale(scale).vocab_size
    read_settled(folder, options)
    needs_text = any(one.trains for one in opened.values())
    needs_tasks = any(one.trains and "tasks" in one.measures for one in opened.values())
    if tasks and not needs_tasks:
        on_message(f"--task changes nothing: {', '.join(opened)} measures no tasks")
    if needs_text and corpus is None and not dry_run:
        _prepare_experiments(text, column, folder, vocab_size, on_message)
        if tasks is None and needs_tasks and _is_builtin(text):
            options = replace(options, tasks=(_write_example_task(folder),))
    will_have = vocab_size if dry_run and corpus is None else None
    return plan_grid(opened, folder, options, dry_run, will_have, on_message)


def run_experiments(
    experiments: str | Sequence[str],
    *,
    on_event: Callable[[GridEvent], None] = lambda event: None,
    **options: Any,
) -> GridResult:
    """Run experiments of the lab: the paper's by name ("table4"), your own by their files ("my-grid.toml").

    Cells read a prepared `corpus`, or `text` that is prepared for them; `more_text` is a larger corpus with the same
    tokenizer, for experiments about more text. `tasks` are official ones ("sst-2=FOLDER") or files with text and label:
    a linear model on frozen states is scored on them. `scale` is nano, mini, small or paper; each cell runs for so many
    `seeds`, and for `steps`, or for what a `budget` of wall-clock time allows to all of them together. `workers` cells
    run at a time, each with so many `threads`; or on the workers of the Dask cluster at the address `scheduler`. What
    was interrupted goes on with the same call. Tables and pages lie in the folder `out`.
    """
    grid = plan_experiments(experiments, **options)
    result = run_grid(grid, on_event)
    write_outputs(grid, list(grid.experiments))
    return result


def _is_builtin(text: PathLike | Sequence[PathLike]) -> bool:
    return isinstance(text, str) and text.startswith("builtin:")


def _prepare_experiments(
    text: PathLike | Sequence[PathLike],
    column: str | Sequence[str],
    folder: Path,
    vocab_size: int,
    on_message: OnMessage,
) -> None:
    """A tokenizer and a corpus for a grid, in its folder, unless they are there."""
    if (folder / "corpus" / MANIFEST).is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "tokenizer" / MANIFEST).is_file():
        on_message("training a tokenizer")
        try:
            train_tokenizer(open_sources(text, column, False, folder), folder / "tokenizer", vocab_size=vocab_size)
        except RequestError as error:
            raise RequestError(
                f"the scale wants a vocabulary of {vocab_size:,} ({error}): give it more --text, or a --corpus that "
                "`litebert tokenizer train` and `litebert prepare` made with fewer pieces"
            ) from None
    on_message("cutting the text into word pieces")
    prepare(text, folder / "tokenizer", folder / "corpus", column=column)


def _write_example_task(folder: Path) -> str:
    """The task that every machine has: which library does a paragraph of documentation belong to?"""
    if not (folder / "task" / "train.jsonl").is_file():
        write_library_task(folder / "task", collect_libraries(documents()))
    return str(folder / "task" / "train.jsonl")


# --- from an encoder and examples to answers ----------------------------------------------------------------------


def read_data(
    task: RecordSource | Dataset,
    *,
    data: PathLike | None = None,
    dev: RecordSource | None = None,
    test: RecordSource | None = None,
    kind: str | None = None,
    text: str = "text",
    pair: str | None = None,
    label: str = "label",
    options: Sequence[str] = (),
    id: str | None = None,
    separator: str = ",",
    format: str | None = None,
    header: bool = True,
    metric: str | None = None,
    skip_bad: bool = False,
) -> Dataset:
    """Read a task with official files (by its name, `data` says where), a file of your own, or a table in memory.

    A table is a pandas DataFrame, a dataset of Hugging Face, or a list of dictionaries.
    """
    if isinstance(task, Dataset):
        return _with_metric(task, metric)
    named = {"text": text, "pair": pair, "label": label, "id": id}  # tables in memory may have numbers for names
    names = {field: None if name is None else str(name) for field, name in named.items()}
    columns = Columns.model_validate({**names, "options": tuple(map(str, options)), "separator": separator})
    if kind is not None and kind not in KINDS:
        raise RequestError(f"there is no kind of task {kind!r}: choose one of {', '.join(KINDS)}")
    if isinstance(task, str) and task in OFFICIAL and not Path(task).is_file():
        own = {"dev": dev, "test": test, "kind": kind, "format": format, "no-header": None if header else True}
        refuse_own_options(task, columns, own)
        if data is None:
            raise RequestError(f"say where {task}'s official files lie: name their folder with --data")
        return _with_metric(read_official(task, Path(data), skip_bad=skip_bad), metric)
    if isinstance(task, str | os.PathLike):
        if not Path(task).is_file():
            raise explain_missing(os.fspath(task))
        if data is not None:
            raise RequestError(
                f"--data is for tasks with official files, and {task} is a file of your own: leave it out"
            )
    return _with_metric(read_own(OwnData(task, dev, test, kind, columns, format, header), skip_bad), metric)


def refuse_own_options(name: str, columns: Columns, options: Mapping[str, object]) -> None:
    """Refuse options for a user's own files beside an official task, which would not look at them."""
    plain = Columns()
    named = [field for field in Columns.model_fields if getattr(columns, field) != getattr(plain, field)]
    given = [option for option, value in options.items() if value is not None] + named
    if given:
        raise RequestError(f"--{given[0]} is for files of your own, and {name} has official ones: leave it out")


def _with_metric(data: Dataset, metric: str | None) -> Dataset:
    """Let another metric decide which weights are best."""
    if metric is None:
        return data
    if metric in LOWER_IS_BETTER:
        raise RequestError(f"{metric} falls as a model gets better, so it cannot decide: choose pearson or spearman")
    others = tuple(name for name in data.task.metrics if name != metric)
    task = data.task.model_copy(update={"metrics": (metric, *others)})
    return Dataset(task, data.splits, data.num_skipped)


@dataclass(frozen=True, repr=False)
class FinetuneResult(RunResult):
    """A fine-tuning run: metrics on the development set, on every split, and the model that answers."""

    @cached_property
    def pipeline(self) -> Pipeline:
        """The finished model, opened."""
        return load(self.folder)

    def predict(self, inputs: Any, pairs: Any = None) -> Any:
        """Answer a text, a pair, a dictionary with the task's columns, or a list of these."""
        return self.pipeline.predict(inputs, pairs)


def finetune(
    task: RecordSource | Dataset,
    *,
    model: PathLike = DEFAULT_ENCODER,
    out: PathLike | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    budget: str | float | None = None,
    lr: float | None = None,
    batch: int | None = None,
    max_length: int | None = None,
    depth: int | None = None,
    seed: int = 0,
    patience: int | None = None,
    frozen: bool = False,
    elastic: bool = False,
    scratch: bool = False,
    plain_head: bool = False,
    balanced: bool = False,
    teacher: PathLike | None = None,
    unlabelled: PathLike | None = None,
    tf_idf: bool = False,
    config: SettingsSource = None,
    set: Sequence[str] = (),
    resume: bool = False,
    report: bool = True,
    on_step: OnStep | None = None,
    on_message: OnMessage = _ignore,
    **columns: Any,
) -> FinetuneResult:
    """Fine-tune an encoder for a task: a task with official files, a file of your own, or a table in memory.

    The encoder is the one that comes with litebert, unless a `model` is named: a run, a folder or a hub name. `depth`
    begins with so many of its layers, as `embed(depth=…)` runs them, and leaves the others away: a faster model.

    `columns` and the other ways to say what to read are those of `read_data`: text, pair, label, options, id, dev,
    test, data, kind, format, header, metric, skip_bad. `balanced` makes every class count the same, however rare it is.
    `elastic` teaches the model to answer after every pass, so that `optimize` can let certain answers leave early.

    `teacher` is a larger model that was fine-tuned for the same task: what it says about the examples is learnt beside
    their labels, and about texts without labels (a file, `unlabelled`) alone.

    `tf_idf` counts words beside the encoder: what they say about a class (of questions, about the sentence that holds
    the answer) is added to what the encoder says, here, in `load` and in `serve`. transformers opens the encoder alone,
    and answers without them.
    """
    given = [name for name, value in (("epochs", epochs), ("steps", steps), ("budget", budget)) if value is not None]
    if len(given) > 1:
        raise RequestError(f"--{given[0]} and --{given[1]} both say how long to train: leave one out")
    columns = _take_options("finetune", columns, inspect.signature(read_data).parameters)
    dataset = read_data(task, **columns)
    if plain_head and not dataset.task.has_unanswerable:
        raise RequestError("--plain-head is for questions that may have no answer, which alone have two heads")
    if elastic and kind_of(dataset.task).head(dataset.task, plain_head) not in EXIT_HEADS:
        raise RequestError(f"--elastic is for classes, scores, choices and answers, not for {dataset.task.kind}")
    shape, tokenizer, location = open_encoder(os.fspath(model), depth)
    if unlabelled is not None:
        dataset = _add_unlabelled(dataset, Path(unlabelled), teacher, columns)
    train = dataset.splits.get("train", ())
    length = choose_length(dataset.task, shape, max_length)
    chosen = configure(
        dataset.task,
        measure_volume(dataset.task, train, tokenizer, length),
        shape,
        None if scratch else location,
        steps=steps,
        epochs=epochs,
        seconds=parse_duration(budget) if isinstance(budget, str) else budget,
        batch_size=batch,
        lr=lr,
        max_length=max_length,
        seed=seed,
        frozen=frozen,
        elastic=elastic,
        patience=patience,
        answerability=not plain_head,
        class_weights=balance_classes(dataset.task, train) if balanced else None,
        teacher=None if teacher is None else os.fspath(teacher),
        tf_idf=tf_idf,
    )
    if config is not None or set:
        chosen = apply_settings(chosen, read_settings(config, {}, set))
        if depth is not None and chosen.model.num_layers != depth:
            raise RequestError(f"--depth says {depth} layers, the settings {chosen.model.num_layers}: leave one out")
    words = None
    if chosen.tf_idf:
        from litebert.baselines.tf_idf import learn_tf_idf  # scikit-learn takes a second

        words = learn_tf_idf(dataset.task, train, seed, balanced)
    folder = Path(out or f"{dataset.task.name}-run")
    write = report_writer(folder, dataset) if report else (lambda evaluations: None)
    result = run_finetuning(
        dataset,
        folder,
        chosen,
        tokenizer,
        tf_idf=words,
        resume=resume,
        on_step=on_step,
        on_message=on_message,
        on_evaluation=write,
    )
    known = {field.name: getattr(result, field.name) for field in fields(result)}
    return _or_interrupt(FinetuneResult(**known), folder)


def _add_unlabelled(data: Dataset, file: Path, teacher: PathLike | None, reading: Mapping[str, Any]) -> Dataset:
    """The examples, and texts without labels among those to learn from."""
    if teacher is None:
        raise RequestError("--unlabelled needs a --teacher that says what to learn from it")
    if not file.is_file():
        raise RequestError(f"{file} is not there: name a file with texts for --unlabelled")
    layout = {name: reading[name] for name in ("skip_bad", "format", "header") if name in reading}
    if layout.get("format") is None and format_of(file) == ("text", ""):
        with file.open("rb") as stream:
            found = Examples(read_lines(data.task, stream, str(file)), 0, stem_of(file))
    else:
        found = read_task_examples(data.task, file, with_labels=False, **layout)
    splits = {**data.splits, "train": (*data.splits.get("train", ()), *found.examples)}
    return Dataset(data.task, splits, data.num_skipped + found.num_skipped)


def fit(
    task: RecordSource | Dataset,
    *,
    model: PathLike = DEFAULT_ENCODER,
    out: PathLike | None = None,
    depth: int | None = None,
    tf_idf: bool = True,
    balanced: bool = False,
    seed: int = 0,
    report: bool = True,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    **columns: Any,
) -> "FitResult":
    """Learn a linear model on an encoder's vectors, and on tf-idf beside them, into a new folder: in seconds.

    It answers classes and numbers, of texts and of pairs: `load`, `predict` and `serve` open the folder as one that was
    fine-tuned, which takes minutes and is mostly better where there are many examples. `depth` takes so many of the
    encoder's layers. `tf_idf=False` leaves the words away; `balanced` makes every class count the same. `columns` and
    the other ways to say what to read are those of `read_data`. `on_progress` is told how many texts have been read,
    and of how many.
    """
    from litebert.baselines.fit import fit as fit_linear  # scikit-learn takes a second

    if out is not None and Path(out).exists():
        raise RequestError(f"{out} is there already: choose another --out")
    data = read_data(task, **_take_options("fit", columns, inspect.signature(read_data).parameters))

    def write(folder: Path, evaluations: Mapping[str, Evaluation]) -> Path | None:
        return report_writer(folder, data)(evaluations) if report else None

    return fit_linear(
        data,
        os.fspath(model),
        Path(out or f"{data.task.name}-fitted"),
        depth=depth,
        tf_idf=tf_idf,
        balanced=balanced,
        seed=seed,
        on_progress=on_progress,
        on_evaluation=write,
    )


def report_writer(folder: Path, data: Dataset) -> Callable[[Mapping[str, Evaluation]], Path | None]:
    """Make the function that draws a page about the development set."""

    def write(evaluations: Mapping[str, Evaluation]) -> Path | None:
        if "dev" not in evaluations:
            return None
        from litebert.reports.finetuning import write_task_report

        found = evaluations["dev"]
        return write_task_report(folder, data.task, data.splits["dev"], found.predictions, found.metrics)

    return write


def evaluate(
    model: PathLike | Pipeline, data: RecordSource | Sequence[Example], *, split: str = "dev", skip_bad: bool = False
) -> dict[str, float]:
    """The metrics of a fine-tuned model (a run, a folder, an ensemble) on examples whose labels are known.

    `data` is a file, a folder of official files, a table in memory, or examples.
    """
    pipeline = model if isinstance(model, Pipeline) else load(os.fspath(model))
    if isinstance(data, str | os.PathLike):
        examples: Sequence[Example] = read_task_examples(pipeline.task, Path(data), split, skip_bad=skip_bad).examples
    elif isinstance(data, Sequence) and all(isinstance(one, Example) for one in data):
        examples = data
    else:
        examples, _ = read_examples(pipeline.task, data, with_labels=True, skip_bad=skip_bad)
    return pipeline.evaluate(examples).metrics
