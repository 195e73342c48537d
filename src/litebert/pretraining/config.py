"""`PretrainConfig`: all that decides what a pretraining run does, in one record that is saved with it."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from litebert.config import Head
from litebert.corpus.stream import StreamConfig
from litebert.model.sharing import max_depth
from litebert.training.config import RunConfig

__all__ = ["PretrainConfig"]


class PretrainConfig(RunConfig):
    """A model, what it is asked about the text, and how it is trained."""

    stream: StreamConfig
    head_start: bool = False
    """Begin with word frequencies and neighbours built in (see `litebert.pretraining.headstart`)."""
    counted_tokens: Annotated[int, Field(ge=0)] = 0
    """A head start with word vectors that are counted in so many tokens (see `litebert.pretraining.counts`)."""
    segment_heads: bool = False
    """A head start with two heads that read one segment each, from which order is learnt sooner."""
    replaced_rate: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Replace this share of the tokens that are neither masked nor special by others that stood beside the same
    neighbour, and ask of all of them whether they were replaced (see `litebert.corpus.replacement`); 0 asks nothing.
    Only stages at full depth ask: with fewer passes, the last of which then runs for all tokens, it costs most."""
    replaced_weight: Annotated[float, Field(gt=0, le=1000)] = 5.0
    """How much that question counts beside a masked token."""
    begin_from: str | None = None
    """A model folder or hub name whose weights to begin with."""
    held_out_rows: int = 256
    """Rows of held-out text that an evaluation looks at."""

    @model_validator(mode="after")
    def _fits_together(self) -> "PretrainConfig":
        lengths = [self.stream.length, *(stage.length or 8 for stage in self.train.stages)]
        if max(lengths) > self.model.max_positions:
            raise ValueError(f"length {max(lengths)} is beyond the model's {self.model.max_positions} positions")
        for stage in self.train.stages:
            if stage.depth is not None and not 1 <= stage.depth <= max_depth(self.model):
                raise ValueError(
                    f"a stage of depth {stage.depth} does not fit a model of {self.model.num_layers} layers"
                )
        if self.head_start and self.begin_from is not None:
            raise ValueError("head_start is for fresh weights, begin_from for trained ones: choose one of them")
        if self.segment_heads and not self.head_start:
            raise ValueError("segment_heads are a part of a head start: set head_start as well, or leave both out")
        if self.segment_heads and (self.model.num_heads < 4 or self.model.num_token_types < 2):
            raise ValueError("segment_heads need a model of four heads or more, and with two token types")
        if not self.replaced_rate and self.replaced_weight != type(self).model_fields["replaced_weight"].default:
            raise ValueError("replaced_weight is for replaced words, and there are none: set replaced_rate as well")
        if self.replaced_rate and not any(map(self.replaces_at, range(len(self.train.stages)))):
            raise ValueError("replaced_rate asks in stages at full depth, and there is none: set it to 0 or add one")
        return self

    def replaces_at(self, stage: int) -> bool:
        """Whether words are replaced in a stage."""
        depth = self.train.stages[stage].depth
        return self.replaced_rate > 0 and depth in (None, self.model.num_layers)

    def identity(self, defaults: bool = True) -> dict[str, Any]:
        """What makes a run what it is; one that replaces nothing is the same as before there was such a setting."""
        identity = super().identity(defaults)
        unused = () if self.replaced_rate else ("replaced_rate", "replaced_weight")
        return {name: value for name, value in identity.items() if name not in unused}

    @property
    def head(self) -> Head:
        """The head: masked tokens alone, or masked tokens and the sentence task."""
        return "masked-lm" if self.stream.pairs == "none" else "pretraining"
