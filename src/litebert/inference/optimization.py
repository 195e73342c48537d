"""What `litebert optimize` found out about a model, in a file beside its weights; the engine follows it."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from litebert.errors import FolderError
from litebert.folders import read_text, write_json
from litebert.inference.early_exit import ExitPolicy
from litebert.model.hf.checkpoint import hash_weights

__all__ = ["OPTIMIZED_FILE", "Optimization", "read_optimization", "write_optimization"]

OPTIMIZED_FILE = "optimized.json"


class Optimization(BaseModel):
    """How a model runs faster without losing more than was allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = 1
    weights: str
    """The hash of the weights that were measured: with others nothing of this holds."""
    int8: tuple[str, ...] = ()
    """What runs with whole numbers of 8 bits: names out of `onnx_graph.list_int8_maps`."""
    exits: ExitPolicy | None = None
    depth: Annotated[int | None, Field(ge=1)] = None
    """Vectors: how many passes make them; all if not given."""
    tokens_at_once: Annotated[int | None, Field(ge=1, le=1_048_576)] = None
    """How many tokens run together, where another number than the usual one was faster."""
    measured: dict[str, Any] = {}
    """What was measured, and on what."""


def read_optimization(folder: Path) -> Optimization | None:
    """What is known about the model of a folder; None where it was not optimized. One of other weights is refused."""
    path = folder / OPTIMIZED_FILE
    if not path.is_file():
        return None
    try:
        found = Optimization.model_validate_json(read_text(path))
    except ValidationError:
        raise FolderError(
            f"{path} was not written by this version of litebert: run `litebert optimize` again"
        ) from None
    if found.weights != hash_weights(folder):
        raise FolderError(f"{path} was made for other weights: delete it, or run `litebert optimize` again")
    return found


def write_optimization(folder: Path, optimization: Optimization) -> None:
    """Put the file beside the weights."""
    write_json(folder / OPTIMIZED_FILE, optimization.model_dump(mode="json", exclude_none=True))
