"""`ServedModel`: a model with its queue, which is opened anew when its folder changes, without a lost request."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from litebert.config import ModelConfig
from litebert.errors import LitebertError, RequestError
from litebert.folders import model_name
from litebert.hub import resolve
from litebert.inference.inspection import inspect_text
from litebert.inference.load import ENSEMBLE, Pipeline, load
from litebert.model.cost import count_parameters
from litebert.model.sharing import layer_plan, without_sharing
from litebert.serve.batching import BatchQueue, OnBatch, QueueLimits
from litebert.tasks.kinds import kind_of

__all__ = ["Ability", "Answered", "Embedded", "ModelVersion", "ServedModel", "estimate_tokens", "name_models"]

Ability = Literal["embed", "classify", "tag", "answer", "choose", "predict", "fill-mask", "order"]
_BY_ANSWER: dict[str, Ability] = {
    "label": "classify",
    "labels": "classify",
    "tags": "tag",
    "span": "answer",
    "option": "choose",
}
_WARM_UP = "a text"
# A text, and how many letters a piece of it has at least where the tokenizer was made for its language.
_SAMPLES = {
    "en": ("the weather was fine and they went to the river with their children", 2.5),
    "ko": ("오늘은 날씨가 좋아서 친구와 함께 학교에 갔습니다 그 영화는 정말 재미있었다", 1.2),
    "zh": ("今天天气很好我们和孩子一起去河边这本书很有意思但是他们没有时间", 0.95),
}
_BYTES_PER_TOKEN = 4  # of English; a letter of Chinese or Korean has three, and is often a token
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Embedded:
    """The vector of a text, and what it is made of."""

    vector: NDArray[np.float32]
    num_tokens: int
    truncated: bool


@dataclass(frozen=True)
class Answered:
    """What a fine-tuned model says about an example."""

    answer: Any
    truncated: bool


class ModelVersion:
    """A model as it was opened once. A request is answered by one version, to its end."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline


class ServedModel:
    """A model that answers requests in batches."""

    def __init__(self, name: str, source: str, limits: QueueLimits, on_batch: OnBatch = lambda *seen: None) -> None:
        self.name, self.source, self.created = name, source, int(time.time())
        self._files = _look_at(source)
        self._failed: object = None
        self.version = ModelVersion(_open(source))
        self.queue = BatchQueue(self._run, limits, on_batch, name)

    @property
    def pipeline(self) -> Pipeline:
        """The model as it is now."""
        return self.version.pipeline

    @property
    def config(self) -> ModelConfig:
        """The shape of the model."""
        return self.pipeline.config

    @property
    def abilities(self) -> list[Ability]:
        """What can be asked of it."""
        found: list[Ability] = ["embed"]
        if self.pipeline.head in ("pretraining", "masked-lm"):
            found.append("fill-mask")
        if self.pipeline.head == "pretraining":
            found.append("order")
        if self.pipeline.members[0].saved is not None:
            found.append("predict")
            answer_type = kind_of(self.pipeline.task).answer_type
            found += [_BY_ANSWER[answer_type]] if answer_type in _BY_ANSWER else []
        return found

    @property
    def is_of_pairs(self) -> bool:
        """Whether it was fine-tuned for pairs of texts."""
        saved = self.pipeline.members[0].saved
        return saved is not None and saved.task.is_pair

    @property
    def dimensions(self) -> list[int]:
        """How many numbers a vector may have."""
        return [*self.config.embedding_dimensions, self.config.hidden_size]

    def describe(self) -> dict[str, Any]:
        """What a client may want to know, and a page can draw."""
        config, first = self.config, self.pipeline.members[0]
        about: dict[str, Any] = {
            "abilities": self.abilities,
            "max_length": first.max_length,
            "dimensions": self.dimensions,
            "num_layers": config.num_layers,
            "mask": self.pipeline.tokenizer.mask_token if "fill-mask" in self.abilities else None,
            "optimized": first.engine.settings,
            "languages": self._guess_languages(),
        }
        if first.saved is not None:
            task = first.saved.task
            about["task"] = {"name": task.name, "kind": task.kind, "labels": task.labels, "is_pair": task.is_pair}
        return about

    def _guess_languages(self) -> list[str]:
        """Of some languages those that the tokenizer can write with few pieces; the first is always named."""
        found = []
        for language, (sample, least) in _SAMPLES.items():
            ids, _ = self.pipeline.tokenizer.encode_plain([sample])
            is_known = self.pipeline.tokenizer.unknown_id not in ids.tolist()
            found += [language] if is_known and len(sample.replace(" ", "")) >= least * len(ids) else []
        return found or ["en"]

    def describe_shape(self) -> dict[str, Any]:
        """The architecture: its sizes, which layers share which blocks, and the parameters beside BERT's."""
        config = self.config
        unshared = without_sharing(config)
        return {
            "config": config.model_dump(mode="json"),
            "layers": layer_plan(config),
            "parameters": count_parameters(config),
            "bert_parameters": count_parameters(unshared),
        }

    def check_dimensions(self, dimensions: int | None) -> None:
        """Refuse a number of dimensions at which the vectors were not taught to work."""
        if dimensions is not None and dimensions not in self.dimensions:
            sizes = ", ".join(map(str, self.dimensions))
            raise RequestError(f"vectors of {self.name} work with {sizes} numbers, not with {dimensions}")

    def warm_up(self) -> None:
        """Run once what will be asked, so that the first request does not wait for it."""
        _warm_up(self.pipeline)

    async def embed(
        self, texts: Sequence[str], depth: int | None = None, version: ModelVersion | None = None
    ) -> list[Embedded]:
        """Vectors of texts, in batches with those of other requests."""
        limit = self.pipeline.members[0].max_length
        tokens = [min(estimate_tokens(text), limit) for text in texts]
        found: list[Embedded] = await self._submit(("embed", depth), texts, tokens, version)
        return found

    async def predict(self, inputs: Sequence[Any]) -> list[Answered]:
        """Answers of a fine-tuned model; an input is whatever `Pipeline.predict` takes."""
        version = self.version
        examples = version.pipeline.make_examples(inputs)
        tokens = [estimate_tokens(one) for one in inputs]
        found: list[Answered] = await self._submit(("predict",), examples, tokens, version)
        return found

    async def ask(self, operation: tuple[Any, ...], inputs: Sequence[Any]) -> list[Any]:
        """Any other operation: `("fill-mask", top)`, `("order",)` on pairs, or `("inspect", tokens)`."""
        return await self._submit(operation, inputs, [estimate_tokens(one) for one in inputs])

    async def _submit(
        self,
        operation: tuple[Any, ...],
        inputs: Sequence[Any],
        tokens: Sequence[int],
        version: ModelVersion | None = None,
    ) -> list[Any]:
        num_bytes = _BYTES_PER_TOKEN * sum(map(estimate_tokens, inputs))
        return await self.queue.submit((version or self.version, *operation), inputs, tokens, num_bytes)

    def _run(self, operation: Any, inputs: list[Any]) -> list[Any]:
        """Run a batch."""
        pipeline: Pipeline = operation[0].pipeline
        match operation[1:]:
            case ("embed", depth):
                features = pipeline.encode(inputs)
                vectors, lengths = pipeline.embed_features(features, depth=depth), features.lengths()
                return [
                    Embedded(vector, int(length), number in features.cut)
                    for number, (vector, length) in enumerate(zip(vectors, lengths, strict=True))
                ]
            case ("predict",):
                answers, cut = pipeline.present_answers(inputs)
                return [Answered(answer, number in cut) for number, answer in enumerate(answers)]
            case ("fill-mask", top):
                return [pipeline.fill_masks(text, top) for text in inputs]
            case ("order",):
                return [pipeline.order_texts(*pair) for pair in inputs]
            case ("inspect", most):
                return [inspect_text(pipeline, text, most) for text in inputs]
        raise AssertionError(operation)

    # --- a folder that changes -------------------------------------------------------------------------------------

    def reload_if_changed(self) -> bool:
        """Open the folder again if its files are others than before; if that fails, the old model goes on."""
        files = _look_at(self.source)
        if files in (self._files, self._failed) or not files:
            return False
        time.sleep(_QUIET)
        if _look_at(self.source) != files:
            return False  # still being written: the next look will tell
        try:
            pipeline = _open(self.source)
            _warm_up(pipeline)
        except (LitebertError, OSError) as error:
            self._failed = files
            logger.warning("%s has changed and cannot be opened, so the old one goes on: %s", self.name, error)
            return False
        self.version, self._files = ModelVersion(pipeline), files
        logger.info("%s has changed and was opened again", self.name)
        return True


_QUIET = 0.5  # seconds in which no file of a folder may change before it is opened again


def _open(source: str) -> Pipeline:
    pipeline = load(source)
    if pipeline.members[0].saved is None and pipeline.head == "sequence-classification":
        return pipeline.as_classifier(is_pair=False)
    return pipeline


def _warm_up(pipeline: Pipeline) -> None:
    pipeline.embed_features(pipeline.encode([_WARM_UP]))
    if pipeline.members[0].saved is not None:
        texts = dict.fromkeys(("question", "context", "passage"), _WARM_UP) | {"options": [_WARM_UP, _WARM_UP]}
        kind = kind_of(pipeline.task)
        pair = (_WARM_UP, _WARM_UP) if pipeline.task.is_pair else _WARM_UP
        pipeline.present_answers(pipeline.make_examples([texts if kind.answer_type in ("span", "option") else pair]))


def _look_at(source: str) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of the files of a model; nothing of one that is no folder of the user's."""
    if not Path(source).is_dir():
        return ()
    try:
        folder = Path(source) if (Path(source) / ENSEMBLE).is_file() else resolve(source)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    except (OSError, LitebertError):
        return ()


def estimate_tokens(given: Any) -> int:
    """About how many tokens an input has, without reading it."""
    match given:
        case str():
            size = len(given) if given.isascii() else 2 * len(given)
            return size // _BYTES_PER_TOKEN + 2
        case dict():
            return sum(map(estimate_tokens, given.values()))
        case list() | tuple():
            return sum(map(estimate_tokens, given))
    return sum(estimate_tokens(getattr(given, one.name)) for one in fields(given)) if is_dataclass(given) else 1


def name_models(given: Sequence[str]) -> dict[str, str]:
    """Models by the names that clients use: `NAME=FOLDER`, or the name of the folder.

    >>> name_models(["runs/reviews/model", "small=my-albert"])
    {'reviews': 'runs/reviews/model', 'small': 'my-albert'}
    """
    named: dict[str, str] = {}
    for one in given:
        name, equals, source = one.partition("=")
        if not equals or Path(one).exists():
            name, source = model_name(one), one
        if name in named:
            raise RequestError(f"two models are called {name}: give one of them another name, as in other={source}")
        if not name or not source:
            raise RequestError(f"{one!r} names no model: write a folder, or NAME=FOLDER")
        named[name] = source
    return named
