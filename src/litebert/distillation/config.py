"""`DistillConfig`: all that decides what a distillation does, in one record that is saved with it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from litebert.config import Head, ModelConfig
from litebert.corpus.stream import StreamConfig
from litebert.model.sharing import block_counts, layer_plan, max_depth
from litebert.training.config import RunConfig, Stage, TrainConfig
from litebert.training.optim import OptimConfig

__all__ = ["AS_STUDENT", "DistillConfig", "LossWeights", "distill_run", "shape_student"]

AS_STUDENT = {"embedding_normalize": True, "embedding_dimensions": (), "labels": (), "problem_type": None}
"""What the shape of a student has, whatever it was before."""
Weight = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]

STUDENT_EMBEDDING, STUDENT_BLOCKS = 96, 3
_FEW_LAYERS = range(4, 7)  # of a teacher whose student has as many but one
_OWN_UNITS, _SHARED_UNITS = 0.15, 0.3  # of a teacher's, in blocks that one layer has, and that several share
LENGTH, LONG_LENGTH = 64, 256
_TOKENS = 1024  # of a step
_SHORT_UNTIL = 0.85  # of the run: then texts grow to several sentences
_FEW_PASSES_UNTIL = 0.25  # of the run: then all depths are drawn
_UNITS_STEP = 32  # matrices of such sizes are fast


class LossWeights(BaseModel):
    """How much each part of the loss counts."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    states: Weight = 1.0
    """Squared distance of the last states, in units of their variance; where both have one tokenizer and one width."""
    layers: Weight = 1.0
    """The same for the states after each layer but the last, where the student's layers are copies of its teacher's;
    in steps at its full depth."""
    vectors: Weight = 5.0
    """1 - cosine of the vectors of texts; where both have one width."""
    similarities: Weight = 10.0
    """Squared difference of the cosines between the texts of a batch; for the vectors and for their first parts."""


class DistillConfig(RunConfig):
    """A student, its teacher, the text that they read, and how the student is trained."""

    teacher: str
    """A model folder or hub name."""
    stream: StreamConfig
    depths: Annotated[tuple[int, ...], Field(min_length=1)]
    """Numbers of passes at which the student shall work; a step draws one of them."""
    dimensions: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """The first so many numbers of a vector shall work alone."""
    weights: LossWeights = LossWeights()
    full_depth: Annotated[float, Field(ge=0, le=1)] = 0.5
    """This share of the steps runs at the largest depth, whatever is drawn in the others."""
    pairs: Annotated[float, Field(ge=0, le=1)] = 0.4
    """This share of the steps reads rows of two texts; where both have one tokenizer."""
    begin_from: str | None = None
    """A model folder whose weights the student begins with, instead of its teacher's."""
    held_out_rows: Annotated[int, Field(ge=1)] = 128
    """Rows of held-out text on which student and teacher are compared."""

    @model_validator(mode="after")
    def _fits_together(self) -> "DistillConfig":
        lengths = [self.stream.length, *(stage.length or 8 for stage in self.train.stages)]
        if max(lengths) > self.model.max_positions:
            raise ValueError(f"length {max(lengths)} is beyond the student's {self.model.max_positions} positions")
        most = max_depth(self.model)
        for depth in (*self.depths, *(stage.depth for stage in self.train.stages if stage.depth is not None)):
            if not 1 <= depth <= most:
                raise ValueError(f"depth {depth} does not fit a student that runs 1 to {most} passes")
        for size in self.dimensions:
            if size >= self.model.hidden_size:
                raise ValueError(f"dimension {size} is no part of a vector of {self.model.hidden_size}")
        return self

    @property
    def head(self) -> Head:
        """The mean of the last states is what is taught."""
        return "sentence-embedding"

    def depths_at(self, stage: int) -> tuple[int, ...]:
        """The depths that are drawn in a stage: those up to the stage's own, or that alone if all are deeper."""
        limit = self.train.stages[stage].depth
        if limit is None:
            return self.depths
        return tuple(depth for depth in self.depths if depth <= limit) or (limit,)


def shape_student(
    teacher: ModelConfig, embedding_size: int = STUDENT_EMBEDDING, num_blocks: int = STUDENT_BLOCKS
) -> ModelConfig:
    """The teacher as an ALBERT: a smaller word table, and narrow blocks with few feed-forward units.

    Of few layers, all but one have a block of their own: where layers share blocks, nothing is left of how a teacher
    reads two texts in a row. Of many, each of three blocks stands for some (docs/LOG.md).

    >>> student = shape_student(ModelConfig(family="bert", sharing="none", embedding_size=768, activation="gelu"))
    >>> student.family, student.embedding_size, student.num_groups, student.intermediate_size
    ('albert', 96, 3, 896)
    """
    depth = teacher.num_layers * teacher.num_inner_layers
    whole, own = teacher.intermediate_size, depth in _FEW_LAYERS and min(block_counts(teacher)) == depth
    if own:
        depth = num_blocks = depth - 1
    else:
        most = min(num_blocks, *block_counts(teacher))  # no more than the teacher has
        num_blocks = next(count for count in range(most, 0, -1) if depth % count == 0)
    kept = int((_OWN_UNITS if own else _SHARED_UNITS) * whole)
    return teacher.updated(
        family="albert",
        embedding_size=min(embedding_size, teacher.embedding_size),
        intermediate_size=whole if num_blocks == 1 else max(1, kept - kept % _UNITS_STEP or kept),
        num_layers=depth,
        sharing="groups" if num_blocks > 1 else "all",
        num_groups=num_blocks,
        num_inner_layers=1,
        project_square_embeddings=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        **AS_STUDENT,
    )


def distill_run(
    teacher: str,
    student: ModelConfig,
    seconds: float | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    length: int | None = None,
    depths: tuple[int, ...] = (),
    dimensions: tuple[int, ...] = (),
) -> DistillConfig:
    """A distillation for a time or a number of steps: few passes and sentences first, all depths and paragraphs later.

    The choices were made by trials at equal time (docs/LOG.md).
    """
    length = length or min(LENGTH, student.max_positions)
    longer = max(length, min(LONG_LENGTH, student.embedding_max_length or LONG_LENGTH, student.max_positions))
    rows = batch_size or max(1, _TOKENS // length)
    depths = tuple(sorted(set(depths))) or default_depths(student)
    few = max(student.num_groups, 2 // student.num_inner_layers)  # passes that use every block, and two layers at least
    plan = layer_plan(student)
    lr = 1e-3 if len(set(plan)) < len(plan) else 6e-4  # a block that runs several times has gradients of all
    shallow = max([depth for depth in depths if depth <= few], default=depths[0])
    return DistillConfig(
        teacher=teacher,
        model=student,
        stream=StreamConfig(length=length, pairs="none", mask_rate=0.0, short_rate=1.0),
        depths=depths,
        dimensions=dimensions or tuple(size for size in (64, 128, 256) if size < student.hidden_size),
        train=TrainConfig(
            steps=steps,
            seconds=seconds,
            batch_size=rows,
            stages=(
                Stage(until=_FEW_PASSES_UNTIL, depth=shallow),
                Stage(until=_SHORT_UNTIL),
                Stage(length=longer, batch_size=max(1, rows * length // longer)),
            ),
            optim=OptimConfig(optimizer="adamw", lr=lr, beta2=0.98, warmup=0.05),
            evaluations=20 if seconds is None else min(20, max(4, round(seconds / 60))),
        ),
    )


def default_depths(student: ModelConfig) -> tuple[int, ...]:
    """All depths up to the student's own where layers share blocks, but for a first that would run one of several."""
    if student.sharing not in ("all", "groups"):
        return (student.num_layers,)
    least = 1 if student.num_groups == 1 else 2
    return tuple(range(least, student.num_layers + 1))
