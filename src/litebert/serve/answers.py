"""What the server answers, as its OpenAPI document describes it; answers are not checked against it while serving."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from litebert.inference.inspection import PassAnswer
from litebert.inference.load import FilledMasks
from litebert.serve.models import Ability
from litebert.tasks.kinds.choice import ChosenOption
from litebert.tasks.kinds.questions import Answer
from litebert.tasks.kinds.tagging import Tags
from litebert.tasks.kinds.texts import Label, Labels

__all__ = [
    "PROBLEMS",
    "ChosenOptions",
    "ClassifiedTexts",
    "Embeddings",
    "FilledTexts",
    "FoundAnswers",
    "FoundPassages",
    "Health",
    "Inside",
    "Lab",
    "Listed",
    "ListedIndex",
    "ListedLab",
    "ListedModel",
    "ListedRun",
    "ModelDetails",
    "OrderedTexts",
    "Predictions",
    "Problem",
    "Ready",
    "Reranked",
    "RunDetails",
    "ScoredText",
    "Similarities",
    "TaggedTexts",
]

Item = TypeVar("Item")


# --- what is wrong ---------------------------------------------------------------------------------------------------


class ProblemDetails(BaseModel):
    """What is wrong, and which field it is about."""

    message: str
    type: str
    param: str | None
    code: str | None


class Problem(BaseModel):
    """An answer other than 200, in the shape that clients of OpenAI read."""

    error: ProblemDetails


_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The model cannot do this, or the body is no JSON."},
    401: {"model": Problem, "description": "The server wants its API key."},
    404: {"model": Problem, "description": "There is nothing of this name."},
    408: {"model": Problem, "description": "The request did not arrive in time."},
    413: {"model": Problem, "description": "The request is too large."},
    422: {"model": Problem, "description": "The request does not have this shape."},
    429: {"model": Problem, "description": "There is too much to do: try again later.", "headers": _RETRY_AFTER},
}
"""What any request may be told."""


# --- the server and its models ---------------------------------------------------------------------------------------


class Health(BaseModel):
    """The process is alive."""

    status: Literal["ok"]


class Ready(BaseModel):
    """All models are warm."""

    status: Literal["ready"]
    models: list[str]


class Listed(BaseModel, Generic[Item]):
    """All that there is."""

    object: Literal["list"]
    data: list[Item]


class ModelTask(BaseModel):
    """What a model was fine-tuned for."""

    name: str
    kind: str
    labels: list[str]
    is_pair: bool


class ListedModel(BaseModel):
    """A model, and what can be asked of it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    abilities: list[Ability]
    max_length: int
    dimensions: list[int]
    """How many numbers a vector may have."""
    num_layers: int
    mask: str | None
    optimized: list[str]
    languages: list[str]
    task: ModelTask | None = None


class Architecture(BaseModel):
    """The shape of a model: for each layer its attention block and its feed-forward block, and parameters by part."""

    config: dict[str, Any]
    layers: list[tuple[int, int]]
    parameters: dict[str, int]
    bert_parameters: dict[str, int]


class ModelDetails(ListedModel):
    """A model with its architecture."""

    architecture: Architecture


class ListedIndex(BaseModel):
    """What can be searched."""

    id: str
    passages: int


class ListedRun(BaseModel):
    """A training run; `changed` is in seconds since 1970."""

    id: str
    kind: str
    changed: float


class RunDetails(BaseModel):
    """A training run with its configuration and its curves."""

    id: str
    kind: str
    state: str
    config: dict[str, Any]
    last: dict[str, Any]
    steps: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]


class ListedLab(BaseModel):
    """A grid of experiments that is finished; `changed` is in seconds since 1970."""

    id: str
    changed: float


class Lab(ListedLab):
    """A grid of experiments with its tables, which are Markdown, and the path of its report."""

    table: str
    report: str


# --- vectors -------------------------------------------------------------------------------------------------------


class Usage(BaseModel):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class Embedding(BaseModel):
    """A vector, as numbers or as base64 of little-endian numbers of 32 bits."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Embeddings(BaseModel):
    """Vectors in the order of the texts; `truncated` holds the numbers of texts that were not read whole."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage
    truncated: list[int] = []


class Similarities(BaseModel):
    """Cosines, a row for each text."""

    model: str
    similarity: list[list[float]]
    truncated: list[int] = []


class FoundPassage(BaseModel):
    """A passage with its cosine: of an index with where it is from, of texts that came along with its number."""

    text: str
    score: float
    index: int | None = None
    location: str | None = None


class FoundPassages(BaseModel):
    """Passages, the nearest first; a list of such lists where several questions were asked."""

    model: str
    index: str | None
    results: list[FoundPassage] | list[list[FoundPassage]]


class Document(BaseModel):
    """A document as it came."""

    text: str


class RankedDocument(BaseModel):
    """A document by its number, and how well it fits."""

    index: int
    relevance_score: float
    document: Document | None = None


class Reranked(BaseModel):
    """Documents, the best first."""

    id: str
    model: str
    results: list[RankedDocument]
    meta: dict[str, Any]
    usage: Usage


class ScoredText(BaseModel):
    """A text by its number, and how well it fits."""

    index: int
    score: float
    text: str | None = None


# --- what models were trained for ------------------------------------------------------------------------------------


class _Results(BaseModel, Generic[Item]):
    model: str
    results: list[Item]
    truncated: list[int] = []


class ClassifiedTexts(_Results[Label | Labels]):
    """The class of each text, or its classes; `truncated` holds the numbers of texts that were not read whole."""


class TaggedTexts(_Results[Tags]):
    """A tag for each word of each text; `truncated` holds the numbers of texts that were not read whole."""


class FoundAnswers(_Results[Answer]):
    """The part of the context that answers the question."""


class ChosenOptions(_Results[ChosenOption]):
    """The option that fits best."""


class Value(BaseModel):
    """A number that a model was taught to give."""

    value: float


class Predictions(_Results[Label | Labels | Tags | Answer | ChosenOption | Value]):
    """An answer for each input, of the kind that the model was fine-tuned for."""


class FilledTexts(BaseModel):
    """The likeliest tokens for each mask of each text."""

    model: str
    results: list[FilledMasks]


class OrderedTexts(BaseModel):
    """How likely it is that the first text comes before the second."""

    model: str
    probability: float
    truncated: bool


class Inside(BaseModel):
    """What was seen in a model; layers in the order in which they run."""

    model: str
    tokens: list[str]
    blocks: list[tuple[int, int]]
    distances: list[float]
    cosines: list[float]
    attention: list[list[list[list[float]]]]
    """(layers, heads, tokens, tokens): how much of a row's token comes from each column's."""
    truncated: bool
    answers: list[PassAnswer]
    exit: int | None
