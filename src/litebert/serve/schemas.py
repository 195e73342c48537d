"""What clients send. The shapes of others (OpenAI, Cohere, Jina, TEI) may hold more than is read; our own may not."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AnswerRequest",
    "ChooseRequest",
    "EmbeddingsRequest",
    "InspectRequest",
    "OrderRequest",
    "PredictRequest",
    "RerankRequest",
    "SearchRequest",
    "SimilarityRequest",
    "TeiRerankRequest",
    "TextsRequest",
]

Texts = str | Annotated[list[str], Field(min_length=1)]
TokenIds = Annotated[list[int], Field(min_length=1)]
ModelName = Annotated[str | None, Field(description="One of /v1/models; the first that can do it if none is named.")]
Top = Annotated[int, Field(ge=1, le=1000)]


class _Foreign(BaseModel):
    model_config = ConfigDict(extra="ignore")

    model: ModelName = None


class _Own(BaseModel):
    model_config = ConfigDict(extra="forbid")

    model: ModelName = None


class EmbeddingsRequest(_Foreign):
    """As OpenAI's clients send it; `depth` is our own."""

    input: Annotated[
        Texts | TokenIds | Annotated[list[TokenIds], Field(min_length=1)],
        Field(description="A text or a list of texts; token ids are refused."),
    ]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1)] | None = None
    depth: Annotated[int, Field(ge=1, description="Passes through the layers: fewer are faster.")] | None = None


class Document(BaseModel):
    """A document of a reranking request; what else it holds is passed over."""

    model_config = ConfigDict(extra="ignore")

    text: str


class RerankRequest(_Foreign):
    """As clients of Cohere (v1 and v2) and Jina send it."""

    query: str
    documents: Annotated[list[str | Document], Field(min_length=1)]
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool = False


class TeiRerankRequest(_Foreign):
    """As clients of Text Embeddings Inference send it."""

    query: str
    texts: Annotated[list[str], Field(min_length=1)]
    return_text: bool = False


class TextsRequest(_Own):
    """One text or several."""

    input: Texts
    pairs: Annotated[Texts | None, Field(description="The second text of each, for a model of pairs.")] = None
    top: Annotated[Top, Field(description="How many guesses, where there are guesses.")] = 5


class PredictRequest(_Own):
    """Whatever the model was fine-tuned for: texts, pairs of texts, or objects with the columns of the task."""

    input: str | dict[str, Any] | Annotated[list[str | list[str] | dict[str, Any]], Field(min_length=1)]


class AnswerRequest(_Own):
    """A question about a text."""

    question: str
    context: str


class ChooseRequest(_Own):
    """A question about a passage, and options to choose from."""

    passage: str
    question: str
    options: Annotated[list[str], Field(min_length=2)]


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
    texts: Annotated[list[str], Field(min_length=1)] | None = None
    top: Top = 5


class InspectRequest(_Own):
    """A text to look at while the model reads it."""

    input: str
