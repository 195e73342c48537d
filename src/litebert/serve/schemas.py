"""What clients send. The shapes of others (OpenAI, Cohere, Jina, TEI) may hold more than is read; our own may not."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, StrictBool, WithJsonSchema, model_validator

__all__ = [
    "AnswerRequest",
    "ChooseRequest",
    "ClassifyRequest",
    "EmbeddingsRequest",
    "FillMaskRequest",
    "InspectRequest",
    "OrderRequest",
    "PredictRequest",
    "RerankRequest",
    "SearchRequest",
    "SimilarityRequest",
    "TagRequest",
    "TeiRerankRequest",
    "TokenIds",
]

_TEXT = {"type": "string"}
_TEXT_LIST = {"type": "array", "items": _TEXT, "minItems": 1}
_ONE_OR_MORE = {"anyOf": [_TEXT, _TEXT_LIST]}
_DOCUMENT = {"type": "object", "properties": {"text": _TEXT}, "required": ["text"]}
_EXAMPLE = [_TEXT, {"type": "object", "description": "The columns of the task."}]


# Lists are checked by hand: pydantic would describe each of a million wrong items, in every branch of a union.


def _read_list(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise ValueError("must be a list of texts that is not empty")
    wrong = next((number for number, one in enumerate(value) if not isinstance(one, str)), None)
    if wrong is not None:
        raise ValueError(f"must be a list of texts, and item {wrong} is none")
    return value


def _read_texts(value: Any) -> str | list[str]:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError("must be a text or a list of texts")
    return _read_list(value)


def _read_input(value: Any) -> "str | list[str] | TokenIds":
    first = value[0] if isinstance(value, list) and value else None
    first = first[0] if isinstance(first, list) and first else first
    return TokenIds() if isinstance(first, int) and not isinstance(first, bool) else _read_texts(value)


def _read_documents(value: Any) -> list[str]:
    if isinstance(value, list):
        value = [one.get("text") if isinstance(one, dict) else one for one in value]
    return _read_list(value)


def _read_examples(value: Any) -> list[Any]:
    listed = value if isinstance(value, list) else [value]
    for number, one in enumerate(listed):
        is_pair = isinstance(one, list) and all(isinstance(text, str) for text in one)
        if not is_pair and not isinstance(one, str | dict):
            raise ValueError(f"must be texts, pairs of texts or objects, and item {number} is none of these")
    if not listed:
        raise ValueError("must not be empty")
    return [tuple(one) if isinstance(one, list) else one for one in listed]


class TokenIds:
    """What some clients send instead of texts."""


Texts = Annotated[str | list[str], PlainValidator(_read_texts), WithJsonSchema(_ONE_OR_MORE)]
TextList = Annotated[list[str], PlainValidator(_read_list), WithJsonSchema(_TEXT_LIST)]
Input = Annotated[
    str | list[str] | TokenIds,
    PlainValidator(_read_input),
    WithJsonSchema({**_ONE_OR_MORE, "description": "A text or a list of texts; token ids are refused."}),
]
Documents = Annotated[
    list[str],
    PlainValidator(_read_documents),
    WithJsonSchema({"type": "array", "items": {"anyOf": [_TEXT, _DOCUMENT]}, "minItems": 1}),
]
Examples = Annotated[
    list[Any],
    PlainValidator(_read_examples),
    WithJsonSchema(
        {"anyOf": [*_EXAMPLE, {"type": "array", "items": {"anyOf": [*_EXAMPLE, _TEXT_LIST]}, "minItems": 1}]}
    ),
]
ModelName = Annotated[str | None, Field(description="One of /v1/models; the first that can do it if none is named.")]
Filled = Annotated[str, Field(min_length=1)]
Options = Annotated[
    list[str],
    PlainValidator(_read_list),
    WithJsonSchema({"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 2}),
]
Top = Annotated[int, Field(ge=1, le=1000)]


class _Foreign(BaseModel):
    model_config = ConfigDict(extra="ignore")

    model: ModelName = None


class _Own(BaseModel):
    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})

    model: ModelName = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, given: Any) -> Any:
        unknown = (
            next((name for name in given if name not in cls.model_fields), None) if isinstance(given, dict) else None
        )
        if unknown is not None:
            raise ValueError(f"there is no field {unknown[:40]!r} here")
        return given


class EmbeddingsRequest(_Foreign):
    """As OpenAI's clients send it; `depth` is our own."""

    input: Input
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, description="One of the model's `dimensions` in /v1/models.")] | None = None
    depth: Annotated[int, Field(ge=1, description="Passes through the layers: fewer are faster.")] | None = None


class RerankRequest(_Foreign):
    """As clients of Cohere (v1 and v2) and Jina send it."""

    query: str
    documents: Documents
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: StrictBool | None = None


class TeiRerankRequest(_Foreign):
    """As clients of Text Embeddings Inference send it."""

    query: str
    texts: TextList
    return_text: StrictBool | None = None


class ClassifyRequest(_Own):
    """One text or several, or pairs of texts."""

    input: Texts
    pairs: Annotated[
        Texts | None, Field(description="The second text of each, as many as there are in input, for a model of pairs.")
    ] = None


class TagRequest(_Own):
    """One text or several."""

    input: Texts


class FillMaskRequest(_Own):
    """One text or several, each with one or more masks."""

    input: Annotated[Texts, Field(description="Each text holds the model's `mask` of /v1/models, mostly [MASK].")]
    top: Annotated[Top, Field(description="How many guesses for each mask.")] = 5


class PredictRequest(_Own):
    """Whatever the model was fine-tuned for: texts, pairs of texts, or objects with the columns of the task."""

    input: Examples


class AnswerRequest(_Own):
    """A question about a text."""

    question: Filled
    context: Filled


class ChooseRequest(_Own):
    """A question about a passage, and options to choose from."""

    passage: Filled
    question: str
    options: Options


class SimilarityRequest(_Own):
    """Texts that are compared with others, or among themselves."""

    texts: Texts
    others: Texts | None = None
    depth: Annotated[int, Field(ge=1)] | None = None


class OrderRequest(_Own):
    """Two pieces of text from one place."""

    first: str
    second: str


class SearchRequest(_Own):
    """A question to an index, or to texts that come along."""

    query: Texts
    index: Annotated[str | None, Field(description="One of /v1/indexes; the first if none is named.")] = None
    texts: TextList | None = None
    top: Top = 5


class InspectRequest(_Own):
    """A text to look at while the model reads it."""

    input: str
