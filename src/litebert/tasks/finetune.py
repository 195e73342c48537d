"""Fine-tuning: examples, an encoder to begin with and a configuration become a run; the run answers.

`Finetuning` is the job that the training loop trains. `finetune` runs it, then measures the best weights on every split
whose labels are known.
"""

import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.config import ModelConfig
from litebert.errors import RequestError
from litebert.folders import locate_model, model_name, write_json
from litebert.model.cost import training_flops
from litebert.model.hf.checkpoint import write_folder
from litebert.model.model import Model, ModelOutput, to_arrays
from litebert.model.sharing import at_depth, layer_plan
from litebert.presets import PRESETS
from litebert.tasks.config import FinetuneConfig
from litebert.tasks.features import Features, order_epoch
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.options import TargetScale
from litebert.tasks.metrics import Evaluation, evaluate_outputs, measure_majority
from litebert.tasks.outputs import TorchRunner, add_tf_idf, run_model, score_tf_idf
from litebert.tasks.predictions import write_predictions
from litebert.tasks.saved import SavedTask, read_saved_task
from litebert.tasks.task import Dataset, Example, Task, hash_examples
from litebert.tasks.teacher import TaskTeacher
from litebert.tasks.tf_idf import TF_IDF_WEIGHT, TfIdf
from litebert.text.tokenizer import Tokenizer
from litebert.training.distributed import World
from litebert.training.job import OnMessage, OnStep, RunResult
from litebert.training.loop import mix_seed
from litebert.training.objectives import count_labels
from litebert.training.run import train as train_job
from litebert.training.run_folder import RunFolder
from litebert.training.state import TrainingState

__all__ = [
    "Evaluation",
    "Finetuning",
    "balance_classes",
    "finetune",
    "list_labelled",
    "make_model",
    "open_encoder",
    "write_evaluation",
]


class Finetuning:
    """The job of a fine-tuning run, for one of its processes."""

    kind = "fine-tuning"
    keeps_best = True
    skip_loss_spikes = False  # rare classes make them
    spares_weights = False
    step_seed = 0

    model: Model

    def __init__(
        self, dataset: Dataset, config: FinetuneConfig, tokenizer: Tokenizer, tf_idf: TfIdf | None = None
    ) -> None:
        self.dataset, self.config, self.tokenizer, self.tf_idf = dataset, config, tokenizer, tf_idf
        assert (tf_idf is not None) == config.tf_idf, "what was learnt of words goes with the setting"
        self.task, self.task_kind = config.task, kind_of(config.task)
        self.metric = self.task.metric
        self.losses = self.task_kind.losses(config.head)
        dev = dataset.splits.get("dev")
        self._dev_hash = hash_examples(dev) if dev else None
        self.data = {"examples": hash_examples(dataset.splits["train"]), "dev": self._dev_hash or hash_examples(())}
        self.teacher = None if config.teacher is None else TaskTeacher(config.teacher, self.task)
        if self.teacher is not None:
            self.data["teacher"] = self.teacher.hash

    def describe_run(self) -> dict[str, Any]:
        """Sizes of the splits, and what always giving the most frequent answer gets."""
        splits = self.dataset.splits
        dev = splits.get("dev")
        return {
            "examples": {name: len(examples) for name, examples in splits.items()},
            "num_skipped": self.dataset.num_skipped,
            "baselines": {"majority": measure_majority(self.task, self._labelled(), dev) if dev else {}},
        }

    def setup(self, world: World, config: FinetuneConfig, fresh: bool, on_message: OnMessage) -> None:
        """Build the model, and encode the examples."""
        self.world, self.config = world, config
        self.model = make_model(config, fresh)
        if config.frozen:
            self.model.encoder.requires_grad_(False)
            if self.model.encoder.pooler is not None:  # it stands on the encoder, and may be as fresh as the head
                self.model.encoder.pooler.requires_grad_(True)
        self.features = self.encode("train")
        if self.teacher is not None:
            answers = self.teacher.answer(self.dataset.splits["train"], world.device, on_message)
            self.features = replace(self.features, labels=answers)
        if config.scale is not None and self.features.labels is not None:
            self.features = replace(self.features, labels=config.scale.shrink(self.features.labels))
        dev, words = self.dataset.splits.get("dev"), self.tf_idf
        self.dev_features = self.encode("dev") if dev else None
        self._dev_words = score_tf_idf(words, self.task, dev) if words is not None and dev else None
        weights = config.class_weights
        self._weights = None if weights is None else torch.tensor(weights, device=world.device)

    def _labelled(self) -> list[Example]:
        """Examples to learn from that people have labelled."""
        return [one for one in self.dataset.splits["train"] if self.task_kind.gold(one) is not None]

    def encode(self, split: str) -> Features:
        """Encode the examples of a split."""
        return self.task_kind.encode(self.task, self.dataset.splits[split], self.tokenizer, self.config.options)

    def steps(self, stage: int, cursor: list[int] | None) -> Iterator[tuple[list[Batch], list[int]]]:
        """This process's items of each step, drawn at random, as micro-batches of like length."""
        features, train = self.features, self.config.train
        size, pad_id = train.batch_size_of(stage), self.model.config.pad_token_id
        lengths = features.lengths()
        epoch, begin = cursor or (0, 0)
        while True:
            order = order_epoch(features.num_items, size, mix_seed(train.seed, epoch))
            for number in range(begin, len(order)):
                items = order[number]
                # Every process gets as many long items as the others.
                items = items[(-lengths[items]).argsort(kind="stable")][self.world.rank :: self.world.size]
                after = [epoch + 1, 0] if number + 1 == len(order) else [epoch, number + 1]
                yield features.micro_batches(items, pad_id, train.micro_batch_size), after
            epoch, begin = epoch + 1, 0

    def enter(self, stage: int) -> None:
        """Nothing changes."""

    def count(self, batch: Batch) -> list[int]:
        """Labels of a batch; the same for each part of the loss."""
        return [count_labels(batch)] * len(self.losses)

    def measure(self, model: nn.Module, batch: Batch, totals: Sequence[float], stage: int) -> list[Tensor]:
        """The loss of the task, in its parts; if elastic, half of it after an earlier pass that is drawn."""
        if self.config.frozen:
            self.model.encoder.eval()  # what stays as it is needs no dropout
        output: ModelOutput = model(**batch.inputs())
        losses = self.task_kind.loss(output, batch, totals, self._weights)
        passes = len(layer_plan(self.config.model))
        if not self.config.elastic or passes == 1:
            return losses
        early: ModelOutput = model(**batch.inputs(), stop_after=1 + self.step_seed % (passes - 1))
        early_losses = self.task_kind.loss(early, batch, totals, self._weights)
        return [(full + part) / 2 for full, part in zip(losses, early_losses, strict=True)]

    def evaluate(self, stage: int) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Metrics on the development examples, if there are any; what the main process finds counts for all."""
        if self.dev_features is None:
            return {}, []
        examples = self.dataset.splits["dev"]
        outputs = self._answer(self.model, examples, self.dev_features, self.config.scale)
        chosen: dict[str, float] = {}
        if self._dev_words is not None:
            weight = self.task_kind.weigh_words(self.task, examples, outputs, self._dev_words)
            said = zip(outputs, self._dev_words, strict=True)
            outputs = [self.task_kind.add_words(output, words, weight) for output, words in said]
            chosen = {"tf_idf_weight": weight}
        metrics = evaluate_outputs(self.task, examples, outputs)[0] | chosen
        shared = self.world.add([value if self.world.is_main else 0.0 for value in metrics.values()])
        return dict(zip(metrics, shared, strict=True)), []

    def _answer(
        self, model: Model, examples: Sequence[Example], features: Features, scale: TargetScale | None
    ) -> list[Any]:
        """What a model says about examples, without the words that may be counted beside it."""
        outputs = run_model(TorchRunner(model), self.task, examples, features, self.config.options)
        return outputs if scale is None else [scale.stretch(output) for output in outputs]

    def operations(self, batch: Batch, stage: int) -> float:
        """Operations of a step on a batch, padding included; a frozen encoder only runs forward."""
        share = (1 / 3 if self.config.frozen else 1.0) * (1.5 if self.config.elastic else 1.0)
        return share * training_flops(self.config.model, batch.input_ids.shape[-1]) * batch.input_ids.numel()

    def describe_stage(self, stage: int) -> dict[str, Any]:
        """Nothing changes from stage to stage."""
        return {}

    def finish(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """A head of numbers says them as they are, not as it has learnt them."""
        names = [f"heads.classifier.linear.{part}" for part in ("weight", "bias")]
        if self.config.scale is None or names[0] not in tensors:
            return tensors
        stretched = self.config.scale.stretch_head(*(tensors[name] for name in names))
        return tensors | dict(zip(names, stretched, strict=True))

    def write_model(self, folder: Path, tensors: dict[str, Tensor], state: TrainingState) -> None:
        """Save a model folder that remembers its task."""
        config = self.config
        weight = state.metrics.get("tf_idf_weight", TF_IDF_WEIGHT)
        saved = SavedTask(
            task=self.task,
            max_length=config.max_length,
            windows=config.windows,
            threshold=state.metrics.get("threshold"),
            scale=config.output_scale,
            dev=self._dev_hash,
            has_tf_idf=True if self.tf_idf is not None else None,
            tf_idf=None if self.tf_idf is None else self.tf_idf.scaled(weight),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what transformers cannot open is on the card; once is enough
            write_folder(
                folder,
                config.model,
                config.head,
                to_arrays(tensors),
                self.tokenizer,
                about=_describe(config, state, self.features.num_items, self.tf_idf),
                extra_files=saved.as_files(),
            )

    def evaluate_best(self, folder: RunFolder) -> dict[str, Evaluation]:
        """Measure the finished model on every split but the training one whose labels are known."""
        model = Model.from_pretrained(folder.model).to(self.world.device)
        scale, words = self.config.output_scale, read_saved_task(folder.model).tf_idf
        threshold = None
        found: dict[str, Evaluation] = {}
        splits = [name for name in self.dataset.splits if name != "train"]
        for split in sorted(splits, key=lambda name: name != "dev"):  # the threshold is tuned on dev
            examples = self.dataset.splits[split]
            if not examples or any(self.task_kind.gold(example) is None for example in examples):
                continue
            features = self.dev_features if split == "dev" and self.dev_features is not None else self.encode(split)
            outputs = self._answer(model, examples, features, scale)
            if words is not None:
                outputs = add_tf_idf(words, self.task, examples, outputs)
            metrics, predictions = evaluate_outputs(self.task, examples, outputs, threshold)
            threshold = metrics.get("threshold", threshold)
            found[split] = Evaluation(metrics, predictions)
        return {split: found[split] for split in splits if split in found}


def finetune(
    data: Dataset,
    out: Path,
    config: FinetuneConfig,
    tokenizer: Tokenizer,
    *,
    tf_idf: TfIdf | None = None,
    resume: bool = False,
    on_step: OnStep | None = None,
    on_message: OnMessage = lambda message: None,
    on_evaluation: Callable[[Mapping[str, Evaluation]], Path | None] = lambda evaluations: None,
    clock: Callable[[], float] = time.monotonic,
) -> RunResult:
    """Train an encoder for a task, into a run folder; the best weights on the development set are its model.

    Under torchrun every process calls this alike. Without a development split the last weights are the model.
    `tf_idf` is what was learnt of words, and answers beside the encoder with the weight that suits the development set
    (`Kind.weigh_words`). `on_evaluation` is told the final metrics and predictions; it may write a report and give its
    path.
    """
    labelled = list_labelled(data, all_of_them=config.teacher is None)
    scale = kind_of(config.task).target_scale(labelled)
    if scale is not None:
        config = config.model_copy(update={"scale": scale})
    job, folder = Finetuning(data, config, tokenizer, tf_idf), RunFolder(out)
    result = train_job(job, config, out, resume=resume, on_step=on_step, on_message=on_message, clock=clock)
    if result.status == "interrupted" or not job.world.is_main:
        return result
    evaluations = job.evaluate_best(folder)
    write_evaluation(folder, data, evaluations)
    report = on_evaluation(evaluations)
    metrics = {split: evaluation.metrics for split, evaluation in evaluations.items()}
    return replace(result, splits=metrics, metrics=metrics.get("dev", {}), report=report)


def list_labelled(data: Dataset, all_of_them: bool = True) -> list[Example]:
    """The training examples that have a label; all have to have one, or at least one of them."""
    train, kind = data.splits.get("train"), kind_of(data.task)
    if not train:
        raise RequestError(f"{data.task.name} has no training examples here: nothing can be learnt from them")
    labelled = [example for example in train if kind.gold(example) is not None]
    if not labelled or (len(labelled) < len(train) and all_of_them):
        unlabelled = next(example for example in train if kind.gold(example) is None)
        name = unlabelled.location or f"training example {unlabelled.id!r}"
        raise RequestError(f"{name} has no label to learn: add it, or leave such examples out")
    return labelled


def write_evaluation(folder: RunFolder, data: Dataset, evaluations: Mapping[str, Evaluation]) -> None:
    """Write metrics and predictions into a folder."""
    for split, evaluation in evaluations.items():
        write_predictions(folder.predictions_file(split), data.task, data.splits[split], evaluation.predictions)
    content = {
        "task": data.task.name,
        "metric": data.task.metric,
        "num_skipped": data.num_skipped,
        "splits": {split: evaluation.metrics for split, evaluation in evaluations.items()},
    }
    write_json(folder.evaluation_file, content)


def make_model(config: FinetuneConfig, fresh: bool = True) -> Model:
    """An encoder with the head of the task: pretrained and fresh on top, or all drawn; the same for the same seed."""
    torch.manual_seed(config.train.seed)
    if config.begin_from is None or not fresh:
        return Model(config.model, config.head)
    pretrained = Model.from_pretrained(config.begin_from, config.head, labels=config.model.labels)
    model = Model(config.model, config.head)  # dropout is the task's, and so is the head, whatever came before
    model.encoder.begin_with(pretrained.encoder)
    return model


def open_encoder(name: str, depth: int | None = None) -> tuple[ModelConfig, Tokenizer, str]:
    """Shape, tokenizer and location of what fine-tuning begins with; a preset has no tokenizer, so it is refused.

    With `depth` the shape is that of an encoder with so many layers of it.
    """
    if name in PRESETS and not Path(name).is_dir():
        raise RequestError(f"{name} is a preset without a vocabulary: pretrain it first, or name a model folder")
    folder = locate_model(name)
    config, tokenizer = Model.read_config(folder), Tokenizer.from_pretrained(folder)
    if depth is not None:
        if not 1 <= depth <= config.num_layers:
            raise RequestError(f"depth must be between 1 and {config.num_layers}, the layers of {name}, not {depth}")
        config = at_depth(config, depth)
    return config, tokenizer, str(Path(folder).resolve()) if Path(folder).is_dir() else str(folder)


def balance_classes(task: Task, examples: Sequence[Example]) -> tuple[float, ...]:
    """Weights that make every label count the same in the loss, however rare it is; 1 on average over the examples."""
    counts = Counter(label for example in examples for label in kind_of(task).label_names(example))
    if not task.labels or kind_of(task).answer_type not in ("label", "tags"):
        raise RequestError(f"class weights are for classes and tags, and {task.name} has none: leave them out")
    return tuple(counts.total() / (len(task.labels) * max(1, counts[label])) for label in task.labels)


def _describe(config: FinetuneConfig, state: TrainingState, num_items: int, tf_idf: TfIdf | None) -> str:
    """The part of a model card that says what a model was fine-tuned for, and how well it does: two tables."""
    task, train, optim = config.task, config.train, config.train.optim
    epochs = state.step * train.batch_size / max(num_items, 1)
    rows = {
        "task": f"{task.name}: {kind_of(task).purpose}",
        "examples": f"{num_items:,} (long texts count as several), each seen {epochs:.1f} times",
        "steps": f"{state.step:,} of {train.batch_size} examples",
        "optimiser": f"{optim.optimizer}, learning rate {optim.lr:g}, warm-up {optim.warmup:.0%}",
        "dropout": f"{config.model.hidden_dropout:g}, before the classifier {config.model.classifier_dropout:g}",
        "longest row": f"{config.windows.max_length if config.windows else config.max_length} tokens",
        "encoder": "frozen" if config.frozen else "trained",
        **({"answers": "after every pass"} if config.elastic else {}),
        **({} if config.teacher is None else {"teacher": model_name(config.teacher)}),
        **({} if tf_idf is None else {"beside it": _describe_words(tf_idf, state.metrics)}),
        "begun with": "random weights" if config.begin_from is None else "a pretrained encoder",
        "seed": str(train.seed),
    }
    lines = ["## Fine-tuning", "", "| | |", "|-|-|", *(f"| {name} | {value} |" for name, value in rows.items())]
    if state.metrics:
        lines += ["", "## Evaluation", "", "On the development set, by which this checkpoint was chosen:", ""]
        lines += ["| | |", "|-|-|", *(f"| {name} | {value:.4g} |" for name, value in state.metrics.items())]
    return "\n".join(lines) + "\n"


def _describe_words(tf_idf: TfIdf, metrics: Mapping[str, float]) -> str:
    weight = metrics.get("tf_idf_weight", TF_IDF_WEIGHT)
    words = f"tf-idf of {len(tf_idf.terms):,} words and pairs of words, which count {weight:.2g} times"
    return f"{words}; transformers opens the encoder alone, and answers without them"
