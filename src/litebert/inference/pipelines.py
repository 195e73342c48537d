"""`load(folder)`: a model and its tokenizer behind task-shaped calls on text."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from litebert.errors import RequestError
from litebert.model.model import Model
from litebert.presets import PRESETS
from litebert.text.tokenizer import Tokenizer

__all__ = ["Guess", "Pipeline", "load"]


@dataclass(frozen=True)
class Guess:
    """One answer with its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class Pipeline:
    """A model that takes text. What it can do depends on the head that it was saved with."""

    model: Model
    tokenizer: Tokenizer

    def embed(self, texts: list[str]) -> Tensor:
        """One vector per text, the mean of its tokens' last states: (texts, hidden)."""
        if not texts:
            return torch.empty(0, self.model.config.hidden_size)
        inputs = self._encode(texts)
        with torch.inference_mode():
            hidden = self.model.encoder(**inputs)
        weights = inputs["attention_mask"][:, :, None].to(hidden.dtype)
        return (hidden * weights).sum(1) / weights.sum(1)  # type: ignore[no-any-return]

    def fill_mask(self, text: str, top: int = 5) -> list[list[Guess]]:
        """The likeliest words for each mask in the text, the first mask first."""
        self._require("fill masks", "pretraining", "masked-lm")
        inputs = self._encode([text])
        positions = (inputs["input_ids"] == self.tokenizer.mask_id).nonzero()[:, 1]
        if not len(positions):
            raise RequestError(f"the text has no {self.tokenizer.mask_token}")
        with torch.inference_mode():
            output = self.model(**inputs, masked_positions=positions[None])
        best = output.prediction_logits.softmax(-1).topk(min(top, self.model.config.vocab_size))
        return [
            [Guess(self.tokenizer.piece(i), p) for p, i in zip(row_p, row_i, strict=True)]
            for row_p, row_i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def classify(self, texts: list[str], pairs: list[str] | None = None) -> list[Guess]:
        """The likeliest label of each text, or of each pair of texts."""
        self._require("classify", "sequence-classification")
        kind = self.model.config.problem_type
        if kind not in (None, "single_label_classification"):
            raise RequestError(
                f"this model was trained for {kind}: ask it with model(...), it has no single label to name"
            )
        if not texts:
            return []
        with torch.inference_mode():
            best = self.model(**self._encode(texts, pairs)).logits.softmax(-1).max(-1)
        names = self.model.config.labels or ("LABEL_0", "LABEL_1")
        return [Guess(names[i], p) for p, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)]

    def _encode(self, texts: list[str], pairs: list[str] | None = None) -> dict[str, Tensor]:
        encoded = self.tokenizer.encode(texts, pairs, max_length=self.model.config.max_positions)
        return {name: torch.from_numpy(array) for name, array in vars(encoded).items()}

    def _require(self, what: str, *heads: str) -> None:
        if self.model.head not in heads:
            raise RequestError(
                f"to {what}, a model needs the head {' or '.join(heads)}; this one has {self.model.head}"
            )


def load(folder: str | Path, revision: str | None = None) -> Pipeline:
    """Open a folder or a hub model for use on text."""
    if not Path(folder).is_dir() and str(folder) in PRESETS:
        raise RequestError(f"{folder} is a preset without tokenizer or training: open it with litebert.Model")
    model, tokenizer = Model.from_pretrained(folder, revision=revision), Tokenizer.from_pretrained(folder, revision)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise RequestError(
            f"the tokenizer of {folder} has {tokenizer.vocab_size:,} pieces and its model knows "
            f"{model.config.vocab_size:,}: they do not belong together"
        )
    return Pipeline(model, tokenizer)
