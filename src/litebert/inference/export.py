"""`litebert export`: a model as an ONNX file with its tokenizer, checked against the model before it is written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from litebert.errors import LitebertError, RequestError
from litebert.folders import replace_folder
from litebert.inference.engine import VECTORS
from litebert.inference.load import Member, load
from litebert.inference.onnx_graph import OUTPUTS, list_inputs
from litebert.inference.sessions import has_onnx, open_session
from litebert.model.hf.folder_config import render_config
from litebert.tasks.outputs import TorchRunner
from litebert.training.run_folder import RunFolder

if TYPE_CHECKING:
    from litebert.model.model import Model

__all__ = ["ONNX_FILE", "ExportResult", "check_onnx", "export", "export_onnx"]

ONNX_FILE = "model.onnx"
_LARGEST_DIFFERENCE = 1e-3


@dataclass(frozen=True)
class ExportResult:
    """A folder with an ONNX file, and how far its outputs are from those of the model."""

    folder: Path
    num_bytes: int
    """Of the ONNX file."""
    weight_bytes: int
    """Of the weights as fp32, each of them once."""
    difference: float | None
    """The largest difference on random ids; None where torch or onnxruntime is not installed to tell, and of int8."""
    is_int8: bool = False
    lacks_tf_idf: bool = False
    """Whether words are counted beside the encoder, which the file does not hold."""
    lacks_linear: bool = False
    """Whether a linear model on its vectors answers, which the file does not hold."""

    @property
    def file(self) -> Path:
        """The ONNX file."""
        return self.folder / ONNX_FILE


def export(model: str | Path, out: str | Path = "exported", *, depth: int | None = None) -> ExportResult:
    """Write a model as an ONNX file, with its tokenizer beside it, for onnxruntime and whatever else reads ONNX.

    `model` is a folder, a run or a hub name. Weights that layers share stand once in the file. `depth` writes another
    number of layers, where layers are shared.
    """
    pipeline = load(model)
    if len(pipeline.members) > 1:
        raise RequestError(f"{model} is an ensemble of {len(pipeline.members)} models: export them one by one")
    RunFolder(out).refuse_run()
    return export_onnx(pipeline.members[0], Path(out), depth)


def export_onnx(member: Member, folder: Path, depth: int | None = None) -> ExportResult:
    """Write an ONNX file with what belongs to it: configuration and tokenizer, as transformers names them.

    Where torch and onnxruntime are installed, the outputs of the file are compared with the model's first. A model that
    was optimized is written with the whole numbers of 8 bits that were measured then.
    """
    engine = member.engine
    depth = engine.depth if depth is None and engine.head == VECTORS else depth
    content = engine.build(engine.head, depth)
    difference = None
    if not engine.has_int8 and has_onnx() and find_spec("torch") is not None:
        difference = check_onnx(engine.model, content, depth)
    if difference is not None and not difference <= _LARGEST_DIFFERENCE:
        raise LitebertError(
            f"the ONNX file would give other outputs than the model (by {difference:.1e}), so it is not written"
        )
    config = json.dumps(render_config(engine.config, engine.head), indent=2, ensure_ascii=False)
    with replace_folder(folder) as staging:
        (staging / ONNX_FILE).write_bytes(content)
        (staging / "config.json").write_text(config + "\n", encoding="utf-8")
        member.tokenizer.write_files(staging, member.max_length)
    lacks = {}
    if member.saved is not None:
        lacks = {"lacks_tf_idf": bool(member.saved.tf_idf), "lacks_linear": bool(member.saved.linear)}
    return ExportResult(folder, len(content), engine.num_bytes, difference, engine.has_int8, **lacks)


def check_onnx(model: "Model", content: bytes, depth: int | None = None) -> float:
    """The largest difference between outputs of the file and of the model, on random ids with padding."""
    config, generator = model.config, np.random.default_rng(0)
    shape = (3, 2, 11) if model.head == "multiple-choice" else (3, 11)
    shape = (*shape[:-1], min(shape[-1], config.max_positions))
    mask = np.ones(shape, np.int64)
    mask[0, ..., shape[-1] // 2 + 1 :] = 0
    inputs = {
        "input_ids": generator.integers(0, config.vocab_size, shape),
        "attention_mask": mask,
        "token_type_ids": generator.integers(0, config.num_token_types, shape),
        "answer_mask": mask,
    }
    inputs = {name: inputs[name] for name in list_inputs(model.head)}
    names = list(OUTPUTS[model.head])
    found = dict(zip(names, open_session(content).run(names, inputs), strict=True))
    expected = TorchRunner(model).run(inputs, depth)
    return max(float(np.abs(_of_spans(found, name) - _of_spans(expected, name)).max()) for name in names)


def _of_spans(outputs: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """An output; of positions, only those that can be: where nothing can, any position may be named."""
    log_probs = {"starts": "start_log_probs", "ends": "end_log_probs"}.get(name)
    return outputs[name] if log_probs is None else np.where(outputs[log_probs] < -1e30, 0, outputs[name])
