"""What a model is, in numbers: one frozen record that is checked when it is made.

Every ALBERT and every BERT of the paper is a `ModelConfig`; nothing else decides the shape of a model. The bounds
are wide enough for any encoder of the field and narrow enough that a hostile file cannot ask for a petabyte.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from litebert.errors import RequestError

__all__ = ["NO_EMBEDDING", "Activation", "Family", "Head", "ModelConfig", "ProblemType", "Sharing", "explain"]

Family = Literal["albert", "bert"]
Sharing = Literal["all", "attention", "ffn", "none", "groups"]
Activation = Literal["gelu_new", "gelu", "relu", "silu"]
ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]
Head = Literal[
    "none",
    "pretraining",
    "masked-lm",
    "sequence-classification",
    "token-classification",
    "question-answering",
    "answerable-question-answering",
    "multiple-choice",
    "sentence-embedding",
]

Count = Annotated[int, Field(ge=1, le=1024)]
Size = Annotated[int, Field(ge=1, le=131_072)]
TokenId = Annotated[int, Field(ge=0, le=10_000_000)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0, allow_inf_nan=False)]

NO_EMBEDDING: dict[str, Any] = {
    "embedding_normalize": False,
    "embedding_max_length": None,
    "embedding_dimensions": (),
}
"""What a model without the sentence-embedding head has of its settings."""
_MOST_BLOCKS = 1024
_MOST_PARAMETERS = 10**11


class ModelConfig(BaseModel):
    """The shape of an encoder and the names of its labels.

    The defaults are ALBERT base (v2: no dropout). `litebert.presets` holds the other members of the family.

    >>> ModelConfig(embedding_size=768).projects_embeddings
    False
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    family: Family = "albert"
    vocab_size: Annotated[int, Field(ge=1, le=10_000_000)] = 30_000
    embedding_size: Size = 128
    hidden_size: Size = 768
    num_layers: Count = 12
    num_heads: Count = 12
    head_size: Size | None = None
    """Numbers of an attention head, where that is not hidden_size / num_heads: in models that lost some heads."""
    intermediate_size: Annotated[int, Field(ge=1, le=1_048_576)] = 3072
    max_positions: Annotated[int, Field(ge=1, le=1_048_576)] = 512
    num_token_types: Count = 2

    sharing: Sharing = "all"
    num_groups: Count = 1
    """With `sharing="groups"`: how many groups the layers are cut into; each shares one set of weights."""
    num_inner_layers: Count = 1
    """Blocks that one layer of a group runs one after the other (`inner_group_num` in transformers)."""

    activation: Activation = "gelu_new"
    hidden_dropout: Probability = 0.0
    attention_dropout: Probability = 0.0
    classifier_dropout: Probability = 0.1
    layer_norm_eps: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1e-12
    initializer_range: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)] = 0.02
    project_square_embeddings: bool = False
    """Keep a learned projection although E = H (some imported ALBERTs have one)."""

    pad_token_id: TokenId = 0
    bos_token_id: TokenId | None = 2
    eos_token_id: TokenId | None = 3

    labels: Annotated[tuple[str, ...], Field(max_length=100_000)] = ()
    problem_type: ProblemType | None = None

    embedding_normalize: bool = False
    """With the sentence-embedding head: bring each vector to length 1."""
    embedding_max_length: Annotated[int, Field(ge=1, le=1_048_576)] | None = None
    """With the sentence-embedding head: how many tokens of a text count; `max_positions` if None."""
    embedding_dimensions: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(max_length=1000)] = ()
    """With the sentence-embedding head: how many of a vector's first numbers were taught to work alone."""

    @model_serializer(mode="wrap")
    def _leave_out_unset(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write fields that few models need only where they are set, so that other configurations stay as is."""
        written: dict[str, Any] = handler(self)
        for name in ("head_size", *NO_EMBEDDING):
            if not getattr(self, name):
                written.pop(name, None)
        return written

    @model_validator(mode="after")
    def _fits_together(self) -> "ModelConfig":
        if self.head_size is None and self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of num_heads {self.num_heads}")
        if self.head_size is not None and self.attention_size == self.hidden_size:
            raise ValueError(f"head_size {self.head_size} is hidden_size / num_heads: leave it out")
        if self.pad_token_id >= self.vocab_size:
            raise ValueError(f"pad_token_id {self.pad_token_id} must be below vocab_size {self.vocab_size}")
        if self.sharing != "groups" and (self.num_groups, self.num_inner_layers) != (1, 1):
            raise ValueError('num_groups and num_inner_layers need sharing="groups"')
        if self.num_groups > self.num_layers:
            raise ValueError(f"num_groups {self.num_groups} must not exceed num_layers {self.num_layers}")
        if max(self.num_layers, self.num_groups) * self.num_inner_layers > _MOST_BLOCKS:
            raise ValueError(f"more than {_MOST_BLOCKS} layers cannot be")
        block = 4 * self.hidden_size * self.attention_size + 2 * self.hidden_size * self.intermediate_size
        tables = (self.vocab_size + self.max_positions) * self.embedding_size
        blocks = {"none": self.num_layers, "groups": self.num_groups * self.num_inner_layers}.get(self.sharing, 1)
        if tables + blocks * block > _MOST_PARAMETERS:
            raise ValueError(f"more than {_MOST_PARAMETERS:,} parameters cannot be")
        if self.project_square_embeddings and self.embedding_size != self.hidden_size:
            raise ValueError("project_square_embeddings is for embedding_size = hidden_size only")
        return self

    @property
    def projects_embeddings(self) -> bool:
        """Whether a linear map E→H stands between the embeddings and the first layer."""
        return self.embedding_size != self.hidden_size or self.project_square_embeddings

    @property
    def attention_size(self) -> int:
        """Numbers of all heads together: the hidden size, unless heads have a size of their own."""
        return self.hidden_size if self.head_size is None else self.num_heads * self.head_size

    @property
    def num_labels(self) -> int:
        """How many outputs a classification head has; two where no labels are named."""
        return len(self.labels) or 2

    def updated(self, **changes: Any) -> "ModelConfig":
        """Return a copy with some fields changed, checked like a new one."""
        try:
            return ModelConfig(**{**dict(self), **changes})
        except ValidationError as error:
            raise RequestError(explain(error)) from None


def explain(error: ValidationError) -> str:
    """Say in one line what pydantic found, the first finding only."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no setting {where}"
    what = first["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what
