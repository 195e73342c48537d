"""onnxruntime: whether it is there, and how a graph is opened on this machine's cores."""

import os
from importlib.util import find_spec
from typing import Any

from litebert.runtime import num_cores

__all__ = ["choose_threads", "has_onnx", "open_session"]


def has_onnx() -> bool:
    """Whether graphs can be made and run here."""
    return find_spec("onnxruntime") is not None


def choose_threads() -> int:
    """As many as there are cores, or as the environment says, which torch follows too."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(wanted) if wanted.isdecimal() and int(wanted) else num_cores()


def open_session(content: bytes) -> Any:
    """An ONNX file, ready to run on this machine's cores."""
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = choose_threads()
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Who waits leaves the core to others.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
