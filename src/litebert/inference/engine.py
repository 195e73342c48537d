"""`Engine`: runs the model of a folder, on onnxruntime where it is installed, on torch where it is not.

Weights are read once, without torch; a graph is made of them when it is first needed, one for each head and depth that
is asked for. Whoever asks for the model itself gets a torch module, and from then on that module answers: what is done
to its weights shows.
"""

import os
from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from litebert.config import Head
from litebert.inference.onnx_graph import LARGEST, OUTPUTS, build_onnx, list_inputs
from litebert.model.hf.checkpoint import fit_tensors, read_folder
from litebert.runtime import num_cores
from litebert.tasks.outputs import TorchRunner

if TYPE_CHECKING:
    from litebert.model.model import Model

__all__ = ["Engine", "has_onnx", "open_session"]

Array = NDArray[Any]
VECTORS: Head = "sentence-embedding"
_BATCH_TOKENS = 512  # 7,600 tokens/s of litebert-en on one core, 6,100 with 2,048 and 3,600 with 8,192


class Engine:
    """The model of a folder, behind one call."""

    def __init__(self, folder: Path) -> None:
        stored = read_folder(folder)
        self.folder, self.config, self.head = folder, stored.config, stored.head
        self._weights, fresh = fit_tensors(stored, self.config, self.head)
        self._sessions: dict[tuple[Head, int | None], Any] = {}
        # What a folder lacks, torch draws afresh; and a graph has its limit.
        self._uses_torch = bool(fresh) or self.num_bytes > LARGEST or not has_onnx() or _has_gpu()

    @property
    def num_bytes(self) -> int:
        """Bytes of the weights in memory."""
        return sum(array.nbytes for array in self._weights.values())

    @property
    def batch_tokens(self) -> int:
        """How many tokens to give it at once: few enough that what a layer makes of them stays in the cache."""
        return TorchRunner(self.model).batch_tokens if self._uses_torch else _BATCH_TOKENS

    @cached_property
    def model(self) -> "Model":
        """The model as a torch module, which answers from now on."""
        import torch

        from litebert.model.model import Model

        self._uses_torch = True
        return Model.from_pretrained(self.folder).to("cuda" if torch.cuda.is_available() else "cpu")

    def run(self, inputs: Mapping[str, Array], depth: int | None = None) -> dict[str, Array]:
        """The outputs of the head, by the names of `onnx_graph.OUTPUTS`."""
        if self._uses_torch:
            return dict(TorchRunner(self.model).run(inputs, depth))
        return self._run_session(self.head, inputs, list(OUTPUTS[self.head]), depth)

    def embed(self, inputs: Mapping[str, Array], depth: int | None = None) -> NDArray[np.float32]:
        """The vector of each row; where the head gives none, the mean of the last states."""
        if not self._uses_torch:
            return self._run_session(VECTORS, inputs, ["sentence_embedding"], depth)["sentence_embedding"]
        if self.head == VECTORS:
            return self.run(inputs, depth)["sentence_embedding"]
        import torch

        device = next(self.model.parameters()).device
        with torch.inference_mode():
            tensors = {name: torch.from_numpy(array).to(device) for name, array in inputs.items()}
            hidden = self.model.eval().encoder(**tensors, depth=depth)
            weights = tensors["attention_mask"][:, :, None].to(hidden.dtype)
            vectors: NDArray[np.float32] = ((hidden * weights).sum(1) / weights.sum(1)).float().cpu().numpy()
        return vectors

    def _run_session(
        self, head: Head, inputs: Mapping[str, Array], names: list[str], depth: int | None
    ) -> dict[str, Array]:
        session = self._sessions.get((head, depth))
        if session is None:
            content = build_onnx(self.config, head, self._weights, depth).SerializeToString()
            session = self._sessions[head, depth] = open_session(content)
        given = {name: inputs[name].astype(np.int64, copy=False) for name in list_inputs(head)}
        return dict(zip(names, session.run(names, given), strict=True))


def has_onnx() -> bool:
    """Whether graphs can be made and run here."""
    return find_spec("onnx") is not None and find_spec("onnxruntime") is not None


def _has_gpu() -> bool:
    if find_spec("torch") is None or not Path("/dev/nvidiactl").exists():
        return False
    import torch

    return torch.cuda.is_available()


def _choose_threads() -> int:
    """As many as there are cores, or as the environment says, which torch follows too."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(wanted) if wanted.isdecimal() and int(wanted) else num_cores()


def open_session(content: bytes) -> Any:
    """An ONNX file, ready to run on this machine's cores."""
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _choose_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Who waits leaves the core to others.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
