"""The same model here and in transformers: configurations, classes, and both directions of travel."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from litebert.config import Head
from litebert.model.head_kinds import HEADS
from litebert.model.model import Model, ModelOutput
from tests.conftest import need

SHARED_HEADS: tuple[Head, ...] = tuple(
    head for head, kind in HEADS.items() if kind.class_suffix and head != "sentence-embedding"
)
"""The heads that transformers has too; sentence embeddings have a test of their own."""

_OUTPUTS: dict[Head, dict[str, str]] = {  # ours → theirs
    "none": {"last_hidden_state": "last_hidden_state", "pooler_output": "pooler_output"},
    "pretraining": {"prediction_logits": "prediction_logits", "sop_logits": "sop_logits"},
    "masked-lm": {"logits": "logits"},
    "sequence-classification": {"logits": "logits"},
    "token-classification": {"logits": "logits"},
    "question-answering": {"start_logits": "start_logits", "end_logits": "end_logits"},
    "multiple-choice": {"logits": "logits"},
}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """transformers without its progress bars and notices."""
    transformers = need("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    yield


def open_in_transformers(folder: Path) -> nn.Module:
    """Open one of our folders with the class that its config.json names; nothing may be missing or left over."""
    (name,) = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
    with quiet():
        model, report = getattr(need("transformers"), name).from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"], report
    assert not report["unexpected_keys"], report
    assert not report["mismatched_keys"], report
    return model.eval()  # type: ignore[no-any-return]


def save_with_transformers(model: Any, folder: Path) -> None:
    with quiet():
        model.save_pretrained(folder)


def largest_difference(ours: Model, theirs: nn.Module, head: Head, inputs: dict[str, Tensor]) -> float:
    """Largest |Δ| of all outputs, at real tokens (what stands at padding means nothing)."""
    with torch.inference_mode():
        found: ModelOutput = ours.eval()(**inputs)
        expected = theirs(**inputs)
    names = dict(_OUTPUTS[head])
    if head == "pretraining" and ours.config.family == "bert":
        names["sop_logits"] = "seq_relationship_logits"
    differences = []
    for own, foreign in names.items():
        a, b = getattr(found, own), getattr(expected, foreign)
        assert a.shape == b.shape, own
        mask = inputs["attention_mask"].bool()
        if a.shape[: mask.dim()] == mask.shape:
            a, b = a[mask], b[mask]
        differences.append((a - b).abs().max().item())
    return max(differences)


def randomize(model: nn.Module, seed: int = 0, deviation: float = 0.1) -> None:
    """Move every parameter, biases and norms too, so that none of them can be confused unnoticed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=deviation)
