"""`load`: a trained model behind calls on text. Everything that answers goes through the `Pipeline` that it gives.

reviews = litebert.load("reviews-run")          # a run, a model folder, an ensemble, or a hub name
reviews.classify("what a film").label           # a text gives one answer, a list gives a list
reviews.predict(["what a film", "boring"])      # whatever the model was fine-tuned for
litebert.load("my-run").embed(texts)            # vectors, from any model
litebert.load().search("a question", texts)     # with the encoder that comes with litebert
litebert.load().index(texts, "my-index")        # embedded once, searched as often as one likes
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from litebert.config import Head, ModelConfig
from litebert.errors import FolderError, RequestError
from litebert.folders import locate_model, read_json
from litebert.hub import DEFAULT_ENCODER, resolve
from litebert.inference.engine import Engine
from litebert.inference.nearest import TopK
from litebert.presets import PRESETS
from litebert.tasks.features import Features, assemble, encode_texts, part_by_length
from litebert.tasks.kinds import KINDS, kind_of
from litebert.tasks.kinds.kind import probabilities
from litebert.tasks.linear import WordTable, normalize
from litebert.tasks.metrics import Evaluation, evaluate_outputs
from litebert.tasks.outputs import encode_saved, run_saved
from litebert.tasks.readers.sources import columns_of
from litebert.tasks.saved import TASK_FILE, SavedTask, read_saved_task
from litebert.tasks.task import Columns, Example, Predictions, Task
from litebert.text.records import BadRecordError
from litebert.text.tokenizer import Tokenizer
from litebert.training.run_folder import RunFolder

if TYPE_CHECKING:
    from litebert.inference.index import Index, Precision
    from litebert.inference.search import Passage
    from litebert.model.model import Model

__all__ = [
    "ENSEMBLE",
    "WINDOW",
    "FilledMasks",
    "Member",
    "Pipeline",
    "TextOrder",
    "TokenGuess",
    "TruncationWarning",
    "check_members",
    "cut_vectors",
    "load",
    "normalize",
]

ENSEMBLE = "ensemble.json"
WINDOW = 4096
_FIRST_WINDOW = 64
"""How many texts of a stream are embedded together: enough that texts of like length meet."""
Vectors = NDArray[np.float32]
OnProgress = Callable[[int], None]


def _ignore(done: int) -> None:
    """Nobody listens."""


class TruncationWarning(UserWarning):
    """A text was longer than the model reads, and only a part of it was read."""


@dataclass(frozen=True)
class TokenGuess:
    """A token that may stand in place of a mask."""

    text: str
    probability: float


@dataclass(frozen=True)
class FilledMasks:
    """The likeliest tokens for each mask of a text."""

    masks: list[list[TokenGuess]]
    truncated: bool = False
    """Whether only the beginning of the text was read."""


@dataclass(frozen=True)
class TextOrder:
    """How likely it is that the first of two texts comes before the second."""

    probability: float
    truncated: bool = False


@dataclass(frozen=True)
class Member:
    """One model of a pipeline; `saved` is what it was fine-tuned for, if it was."""

    folder: Path
    engine: Engine
    tokenizer: Tokenizer
    saved: SavedTask | None

    @classmethod
    def open(cls, name: str | Path, revision: str | None = None, optimized: bool = True) -> "Member":
        """Open a run, a model folder or a hub name; `optimized` as for `load`."""
        if not Path(name).is_dir() and str(name) in PRESETS:
            raise RequestError(f"{name} is a preset without tokenizer or training: open it with litebert.Model")
        located = Path(locate_model(name))
        if located.is_dir() and not (located / "config.json").is_file():
            if not RunFolder(located).exists and not RunFolder(located).seeds_file.is_file():
                raise FolderError(f"{name} is no model: it has no config.json; name a model folder or a run")
            read_saved_task(located)  # says what is wrong with a run that has no model
        folder = resolve(name, revision)
        engine, tokenizer = Engine(folder, optimized), Tokenizer.from_pretrained(folder)
        if tokenizer.vocab_size > engine.config.vocab_size:
            raise RequestError(
                f"the tokenizer of {name} has {tokenizer.vocab_size:,} pieces and its model knows "
                f"{engine.config.vocab_size:,}: they do not belong together"
            )
        saved = read_saved_task(folder) if (folder / TASK_FILE).is_file() else None
        member = cls(folder, engine, tokenizer, saved)
        if saved is None or saved.linear is None:
            return member
        return replace(member, saved=saved.model_copy(update={"linear": saved.linear.opened(member.words)}))

    @property
    def words(self) -> WordTable:
        """Its word vectors, all of the same weight."""
        return WordTable(self.tokenizer, self.engine.weights["encoder.embeddings.words.weight"])

    @property
    def task(self) -> SavedTask:
        """What the model was fine-tuned for; one that was not is refused."""
        return self.saved or read_saved_task(self.folder)

    @property
    def max_length(self) -> int:
        """How many tokens of a text the model reads."""
        if self.saved is not None:
            return self.saved.max_length
        config = self.engine.config
        return min(config.embedding_max_length or config.max_positions, config.max_positions)

    def encode(self, examples: Sequence[Example]) -> Features:
        """Encode examples as the model learnt them."""
        return encode_saved(self.task, examples, self.tokenizer)

    def run(self, examples: Sequence[Example], features: Features, on_progress: OnProgress = _ignore) -> list[Any]:
        """What the model says about examples."""
        return run_saved(self.engine, self.task, examples, features, on_progress)


@dataclass(frozen=True)
class Pipeline:
    """One model, or an ensemble whose members' answers are averaged. What it can do depends on what it was trained for.

    A `str` (or whatever is one example) gives one answer; a list gives a list.
    """

    members: tuple[Member, ...]
    threshold: float | None = None
    """Questions: above these odds there is no answer."""

    @property
    def model(self) -> "Model":
        """The first model as a torch module; from now on it is what answers."""
        return self.members[0].engine.model

    @property
    def config(self) -> ModelConfig:
        """The shape of the first model."""
        return self.members[0].engine.config

    @property
    def head(self) -> Head:
        """The head of the first model."""
        return self.members[0].engine.head

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the first model."""
        return self.members[0].tokenizer

    @property
    def task(self) -> Task:
        """What the model was fine-tuned for."""
        return self.members[0].task.task

    def __repr__(self) -> str:
        first = self.members[0]
        what = f"{first.saved.task.name} ({first.saved.task.kind})" if first.saved else f"head {self.head}"
        several = f", {len(self.members)} models" if len(self.members) > 1 else ""
        return f"<Pipeline {str(first.folder)!r}: {what}{several}>"

    # --- what the model was fine-tuned for -------------------------------------------------------------------------

    def run(self, examples: Sequence[Example], on_progress: OnProgress = _ignore) -> tuple[list[Any], frozenset[int]]:
        """What the members say about examples, averaged; and which examples were not read whole."""
        outputs, cut = [], frozenset[int]()
        for member in self.members:
            features = member.encode(examples)
            cut |= features.cut
            outputs.append(member.run(examples, features, on_progress))
        if len(outputs) == 1:
            return outputs[0], cut
        kind = kind_of(self.task)
        return [kind.average(self.task, one) for one in zip(*outputs, strict=True)], cut

    def answer_examples(self, examples: Sequence[Example], on_progress: OnProgress = _ignore) -> Predictions:
        """Answers to examples of the task; the details of a text that was cut say so (`truncated`)."""
        outputs, cut = self.run(examples, on_progress)
        threshold = 0.0 if self.threshold is None else self.threshold  # even odds, where none was tuned
        predictions = kind_of(self.task).decode(self.task, outputs, threshold)
        details = tuple(
            {**one, "truncated": True} if number in cut else one for number, one in enumerate(predictions.details)
        )
        return Predictions(predictions.answers, details, predictions.null_odds)

    def answer_stream(
        self, examples: Iterable[Example], on_progress: OnProgress = _ignore
    ) -> Iterator[tuple[list[Example], Predictions]]:
        """Blocks of any number of examples with their answers, in their order; memory does not grow with the number.

        The first blocks are small, so that answers come soon.
        """
        stream, window, done = iter(examples), _FIRST_WINDOW, 0
        while some := list(islice(stream, window)):
            yield some, self.answer_examples(some)
            done, window = done + len(some), min(4 * window, WINDOW)
            on_progress(done)

    def evaluate(self, examples: Sequence[Example]) -> Evaluation:
        """Metrics on examples whose labels are known, and the predictions.

        Questions that may have no answer: with the threshold that was tuned before, or else the best one for these.
        """
        outputs, _ = self.run(examples)
        return Evaluation(*evaluate_outputs(self.task, examples, outputs, self.threshold))

    def predict(self, inputs: Any, pairs: Any = None) -> Any:
        """Answer whatever the model was fine-tuned for.

        An input is a text, a pair of texts, or a dictionary with the columns of the task; `pairs` gives the second
        texts. One input gives one answer, a list gives a list.
        """
        return self._ask(inputs, pairs)

    def predict_stream(self, inputs: Iterable[Any], *, window: int = WINDOW) -> Iterator[Any]:
        """Answers to any number of inputs, in their order; memory does not grow with the number."""
        if isinstance(inputs, str | Mapping):
            raise RequestError("a stream has many inputs: give an iterable of them, or call predict")
        stream = iter(inputs)
        while some := list(islice(stream, window)):
            yield from self.predict(some)

    def classify(self, texts: Any, pairs: Any = None) -> Any:
        """The label of each text with its probability, and the probabilities of all labels."""
        if self.members[0].saved is None and self.head == "sequence-classification":
            return self.as_classifier(pairs is not None).classify(texts, pairs)
        self._require("classify", "label", "labels")
        return self._ask(texts, pairs)

    def as_classifier(self, is_pair: bool) -> "Pipeline":
        """This model, which others fine-tuned, with the task that its labels and its type of problem tell."""
        config = self.config
        wanted = config.problem_type or "single_label_classification"
        kind = next(kind for kind in KINDS.values() if kind.problem_type == wanted)
        labels = config.labels or ("LABEL_0", "LABEL_1")
        task = Task(name="others", kind=kind.name, labels=labels, metrics=kind.metrics, is_pair=is_pair)
        saved = SavedTask(task=task, max_length=config.max_positions)
        return replace(self, members=(replace(self.members[0], saved=saved),))

    def tag(self, sentences: Any) -> Any:
        """A tag for each word of a sentence: a text with spaces between the words, or a list of words."""
        self._require("tag words", "tags")
        if isinstance(sentences, str):
            return self._ask(sentences)
        return self._ask([one if isinstance(one, str) else {"words": list(one)} for one in sentences])

    def answer(self, question: str, context: str) -> Any:
        """The part of the context that answers the question."""
        self._require("answer questions", "span")
        return self._ask({"question": question, "context": context})

    def choose(self, passage: str, question: str, options: Sequence[str]) -> Any:
        """The option that fits best."""
        self._require("choose options", "option")
        return self._ask({"passage": passage, "question": question, "options": list(options)})

    def _require(self, what: str, *answer_types: str) -> None:
        saved = self.members[0].saved
        if saved is None:
            raise RequestError(
                f"to {what}, a model has to be fine-tuned; this one has the head {self.head}: run finetune"
            )
        if kind_of(saved.task).answer_type not in answer_types:
            raise RequestError(
                f"this model was fine-tuned for {saved.task.kind}, so it cannot {what}: use predict(...)"
            )

    def _ask(self, inputs: Any, pairs: Any = None) -> Any:
        is_one = isinstance(inputs, str | Mapping) or (
            isinstance(inputs, tuple) and all(isinstance(x, str) for x in inputs)
        )
        if is_one:
            inputs, pairs = [inputs], None if pairs is None else [pairs]
        if not isinstance(inputs, Iterable):
            raise RequestError(f"{inputs!r} is no text: give a text, a pair of texts, a dictionary, or a list of these")
        inputs = list(inputs)
        if pairs is not None:
            if isinstance(pairs, str) or len(pairs) != len(inputs):
                raise RequestError("there must be as many second texts as first ones: give a list of the same length")
            inputs = list(zip(inputs, pairs, strict=True))
        answers, cut = self.present_answers(self.make_examples(inputs))
        _warn_of_cut(len(cut), self.members[0].task.max_length)
        return answers[0] if is_one else answers

    def make_examples(self, inputs: Iterable[Any]) -> list[Example]:
        """Examples of the task, of what `predict` takes; what the task does not know is refused."""
        columns = columns_of(self.task)
        return [self._make_example(str(number), one, columns) for number, one in enumerate(inputs)]

    def present_answers(self, examples: Sequence[Example]) -> tuple[list[Any], frozenset[int]]:
        """An answer to each example, as `predict` gives it; and which examples were not read whole."""
        predictions, kind = self.answer_examples(examples), kind_of(self.task)
        answers = [
            kind.present(self.task, example, answer, details)
            for example, answer, details in zip(examples, predictions.answers, predictions.details, strict=True)
        ]
        return answers, frozenset(n for n, one in enumerate(predictions.details) if "truncated" in one)

    def _make_example(self, number: str, value: Any, columns: Columns) -> Example:
        task, kind = self.task, kind_of(self.task)
        try:
            if isinstance(value, Mapping):
                return kind.parse_object(task, number, value, columns, f"input {number}")
            if isinstance(value, tuple):
                return kind.from_texts(task, number, value)
            return kind.from_texts(task, number, (value,))
        except BadRecordError as error:
            raise RequestError(f"input {number} {error}") from None

    # --- what every model can do -----------------------------------------------------------------------------------

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        depth: int | None = None,
        dimensions: int | None = None,
        on_progress: OnProgress = _ignore,
    ) -> Vectors:
        """The vector of each text, the mean of its tokens' last states: (hidden,) for one, (texts, hidden) for many.

        `depth` runs another number of passes; fewer are faster. `dimensions` gives the first numbers of each vector
        alone, at its length. An encoder's card says what it was trained for.
        """
        is_one = isinstance(texts, str)
        if not isinstance(texts, Iterable):
            raise RequestError(f"{texts!r} is no text: give a text or a list of texts")
        listed = [texts] if isinstance(texts, str) else list(texts)
        if not all(isinstance(text, str) for text in listed):
            raise RequestError("a list of texts holds something that is no text: give texts alone")
        self.check_vectors(depth, dimensions)
        features = self.encode(listed)
        _warn_of_cut(len(features.cut), self.members[0].max_length)
        vectors = self.embed_features(features, depth=depth, dimensions=dimensions, on_progress=on_progress)
        return vectors[0] if is_one else vectors

    def encode(self, texts: list[str]) -> Features:
        """Texts as the model reads them for their vectors, cut where they are too long for it."""
        limit, tokenizer = self.members[0].max_length, self.tokenizer
        ids = encode_texts(tokenizer, texts, limit)
        cut = frozenset(number for number, one in enumerate(ids) if len(one) > limit - 2)
        tokens, ends, splits = assemble(tokenizer, [(one[: limit - 2], None) for one in ids])
        return Features(tokens, ends, splits, np.arange(len(texts)), cut=cut)

    def embed_features(
        self,
        features: Features,
        *,
        depth: int | None = None,
        dimensions: int | None = None,
        on_progress: OnProgress = _ignore,
    ) -> Vectors:
        """The vectors of encoded texts, in their order."""
        size, engine, done = self.config.hidden_size, self.members[0].engine, 0
        vectors = np.zeros((features.num_items, size), np.float32)
        for group in part_by_length(features.lengths(), engine.batch_tokens, most_padding=engine.most_padding):
            inputs = features.collate_arrays(group, self.config.pad_token_id)
            vectors[group] = engine.embed(inputs, depth)
            done += len(group)
            on_progress(done)
        return cut_vectors(vectors, dimensions)

    def embed_stream(
        self, texts: Iterable[str], *, window: int = WINDOW, on_progress: OnProgress = _ignore, **how: Any
    ) -> Iterator[Vectors]:
        """Vectors of any number of texts, so many at a time and in their order; memory does not grow with the number.

        `how` is what `embed` takes beside texts.
        """
        if isinstance(texts, str):
            raise RequestError("a stream has many texts: give an iterable of them, or call embed")
        stream, num_before = iter(texts), 0

        def show(done: int) -> None:
            on_progress(num_before + done)

        while some := list(islice(stream, window)):
            yield self.embed(some, on_progress=show, **how)
            num_before += len(some)

    def check_vectors(self, depth: int | None = None, dimensions: int | None = None) -> None:
        """Refuse what `embed` cannot do."""
        size, passes = self.config.hidden_size, self.config.num_layers
        if dimensions is not None and not 1 <= dimensions <= size:
            raise RequestError(f"a vector of this model has {size} numbers: ask for 1 to {size}, not {dimensions}")
        if depth is not None and not 1 <= depth <= passes:
            raise RequestError(f"depth must be between 1 and {passes}, which are all passes of this model, not {depth}")

    def similarity(self, texts: str | Iterable[str], others: str | Iterable[str], **how: Any) -> Any:
        """Cosines of vectors: a number for two texts, a row or column for one and many, a matrix for many and many.

        `how` is what `embed` takes beside texts.
        """
        cosines = normalize(self.embed(texts, **how)) @ normalize(self.embed(others, **how)).T
        return float(cosines) if np.ndim(cosines) == 0 else cosines

    def search(self, query: str | Sequence[str], texts: Sequence[str], top: int = 5, **how: Any) -> Any:
        """The texts that are most alike to the query: index and cosine, the best first; a list for each of several.

        `how` is what `embed` takes beside texts. The texts are embedded once, however many queries there are.
        """
        queries = [query] if isinstance(query, str) else list(query)
        cosines = np.asarray(self.similarity(queries, list(texts), **how))
        best = TopK(len(queries), top)
        best.add(cosines)
        found = list(best)
        return found[0] if isinstance(query, str) else found

    def index(
        self,
        texts: "Iterable[str | Passage]",
        folder: str | Path | None = None,
        *,
        precision: "Precision" = "float16",
        depth: int | None = None,
        dimensions: int | None = None,
        on_progress: OnProgress = _ignore,
    ) -> "Index":
        """Embed texts once and keep their vectors, to be searched often: in a folder, or while the index is in use."""
        from litebert.inference.index import Index

        how: dict[str, Any] = {"precision": precision, "depth": depth, "dimensions": dimensions}
        return Index.build(self, texts, folder, on_progress=on_progress, **how)

    def order(self, first: str, second: str) -> float:
        """How likely it is that the first text comes before the second, as sentence-order prediction learnt it.

        Both ways round are asked, so that `order(a, b) + order(b, a)` is 1.
        """
        order = self.order_texts(first, second)
        _warn_of_cut(order.truncated, self.config.max_positions)
        return order.probability

    def order_texts(self, first: str, second: str) -> TextOrder:
        """The same, and whether both texts were read whole."""
        if self.head != "pretraining":
            raise RequestError(f"to tell the order of texts, a model needs the head pretraining, not {self.head}")
        limit = self.config.max_positions
        encoded = self.tokenizer.encode([first, second], [second, first], max_length=limit)
        in_order = probabilities(self.members[0].engine.run(encoded.arrays())["sop_logits"])[:, 0]
        return TextOrder(float((in_order[0] + 1 - in_order[1]) / 2), bool(encoded.cut))

    def fill_mask(self, texts: str | Iterable[str], top: int = 5) -> Any:
        """The likeliest tokens for each mask of a text, the first mask first."""
        filled = [self.fill_masks(text, top) for text in ([texts] if isinstance(texts, str) else texts)]
        _warn_of_cut(sum(one.truncated for one in filled), self.config.max_positions)
        return filled[0].masks if isinstance(texts, str) else [one.masks for one in filled]

    def fill_masks(self, text: str, top: int = 5) -> FilledMasks:
        """The same for one text, and whether it was read whole."""
        if self.head not in ("pretraining", "masked-lm"):
            raise RequestError(
                f"to fill masks, a model needs the head pretraining or masked-lm; this one has {self.head}"
            )
        encoded = self.tokenizer.encode([text], None, max_length=self.config.max_positions)
        (positions,) = np.nonzero(encoded.input_ids[0] == self.tokenizer.mask_id)
        if not len(positions):
            among = f" among the first {self.config.max_positions} tokens, which are read" if encoded.cut else ""
            raise RequestError(f"the text has no {self.tokenizer.mask_token}{among}")
        outputs = self.members[0].engine.run(encoded.arrays())
        logits = outputs["prediction_logits" if self.head == "pretraining" else "logits"][0, positions]
        shares = probabilities(logits)
        best = np.argsort(-shares, axis=-1, kind="stable")[:, :top]
        masks = [
            [TokenGuess(self.tokenizer.piece(int(token)), float(row[token])) for token in tokens]
            for row, tokens in zip(shares, best, strict=True)
        ]
        return FilledMasks(masks, bool(encoded.cut))


def cut_vectors(vectors: Vectors, dimensions: int | None) -> Vectors:
    """The first numbers of each vector, which keeps the length that it had; all of them if None."""
    if dimensions is None or dimensions >= vectors.shape[-1]:
        return vectors
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    cut: Vectors = normalize(vectors[:, :dimensions]) * lengths
    return cut


def _warn_of_cut(count: int, limit: int) -> None:
    if count:
        texts = "1 text was" if count == 1 else f"{count:,} texts were"
        message = f"{texts} longer than the {limit} tokens that this model reads: only the beginning counts"
        warnings.warn(message, TruncationWarning, stacklevel=4)


def load(name: str | Path = DEFAULT_ENCODER, revision: str | None = None, *, optimized: bool = True) -> Pipeline:
    """Open a run, a model folder, an ensemble or a hub name for use on text; the encoder of litebert's own if none.

    A model that `litebert optimize` has measured runs as fast as was found to be good enough; `optimized=False` runs it
    as it was trained.
    """
    folder = Path(name)
    if not (folder / ENSEMBLE).is_file():
        member = Member.open(name, revision, optimized)
        return Pipeline((member,), member.saved.threshold if member.saved else None)
    content = read_json(folder / ENSEMBLE)
    names = content.get("members")
    if not isinstance(names, list) or not names:
        raise FolderError(f"{folder / ENSEMBLE} names no members: make the ensemble again")
    members = tuple(Member.open(folder / str(member), optimized=optimized) for member in names)
    check_members(members)
    threshold = content.get("threshold")
    return Pipeline(members, float(threshold) if isinstance(threshold, int | float) else None)


def check_members(members: Sequence[Member]) -> None:
    """Refuse models that are not of one task, or whose heads are of different kinds; linear models go with any head."""
    first = members[0].task.task
    tuned = [member for member in members if member.task.linear is None]
    for member in members[1:]:
        other = member.task.task
        if (other.name, other.kind, other.labels) != (first.name, first.kind, first.labels):
            raise RequestError(
                f"{member.folder} answers {other.name}, {members[0].folder} answers {first.name}: "
                "an ensemble needs models of one task with the same labels"
            )
    for member in tuned[1:]:
        if member.engine.head != tuned[0].engine.head:
            raise RequestError(f"{member.folder} and {tuned[0].folder} have heads of different kinds: choose one kind")
