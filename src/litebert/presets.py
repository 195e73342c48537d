"""The family: ALBERT and BERT as the paper names them, smaller ones for a laptop, and every row of its ablations.

Dropout is that of the second release (none) for ALBERT and 0.1 for BERT. Sources: Lan et al., "ALBERT: A Lite BERT",
ICLR 2020, Tables 1, 3, 4, 11, 12 and 13.
"""

import difflib
from dataclasses import dataclass
from typing import Any

from litebert.config import ModelConfig, Sharing
from litebert.errors import RequestError

__all__ = ["PRESETS", "Preset", "preset_config"]


@dataclass(frozen=True)
class Preset:
    """A named shape, with the size that the paper prints for it and the table where it stands."""

    config: ModelConfig
    paper_parameters: str = ""
    paper_table: str = ""


def _albert(hidden_size: int, num_layers: int, **changes: Any) -> ModelConfig:
    shape = {"hidden_size": hidden_size, "num_heads": hidden_size // 64, "intermediate_size": 4 * hidden_size}
    return ModelConfig(**{**shape, "num_layers": num_layers, **changes})


def _bert(hidden_size: int, num_layers: int, **changes: Any) -> ModelConfig:
    style = {"family": "bert", "sharing": "none", "embedding_size": hidden_size, "activation": "gelu"}
    rest = {"hidden_dropout": 0.1, "attention_dropout": 0.1, "bos_token_id": None, "eos_token_id": None}
    return _albert(hidden_size, num_layers, **style, **rest, **changes)


PRESETS: dict[str, Preset] = {
    "albert-micro": Preset(_albert(256, 3, vocab_size=8000)),
    "albert-mini": Preset(_albert(256, 6, vocab_size=8000)),
    "albert-base": Preset(_albert(768, 12), "12M", "1"),
    "albert-large": Preset(_albert(1024, 24), "18M", "1"),
    "albert-xlarge": Preset(_albert(2048, 24), "60M", "1"),
    "albert-xxlarge": Preset(_albert(4096, 12), "235M", "1"),
    "bert-mini": Preset(_bert(256, 6, vocab_size=8000)),
    "bert-base": Preset(_bert(768, 12), "108M", "1"),
    "bert-large": Preset(_bert(1024, 24), "334M", "1"),
}

# Table 3, the embedding size (rows that are not shared, then shared); Table 4, what is shared.
_EMBEDDINGS: list[tuple[int, Sharing, str, str]] = [
    (64, "none", "87M", "3"),
    (128, "none", "89M", "3, 4"),
    (256, "none", "93M", "3"),
    (768, "none", "108M", "3, 4"),
    (64, "all", "10M", "3"),
    (128, "all", "12M", "3, 4"),
    (256, "all", "16M", "3"),
    (768, "all", "31M", "3, 4"),
    (768, "attention", "83M", "4"),
    (768, "ffn", "57M", "4"),
    (128, "attention", "64M", "4"),
    (128, "ffn", "38M", "4"),
]
for _size, _sharing, _parameters, _table in _EMBEDDINGS:
    _config = _albert(768, 12, embedding_size=_size, sharing=_sharing)
    PRESETS[f"albert-base-e{_size}-{_sharing}"] = Preset(_config, _parameters, _table)

for _depth in (1, 3, 6, 12, 24, 48):
    PRESETS[f"albert-large-{_depth}l"] = Preset(_albert(1024, _depth), "18M", "11")
for _width, _parameters in ((1024, "18M"), (2048, "60M"), (4096, "225M"), (6144, "499M")):
    PRESETS[f"albert-3l-h{_width}"] = Preset(_albert(_width, 3), _parameters, "12")
for _depth in (12, 24):
    PRESETS[f"albert-xxlarge-{_depth}l"] = Preset(_albert(4096, _depth), "235M", "13")


def preset_config(name: str) -> ModelConfig:
    """The configuration of a preset, or a sentence that lists them."""
    if name not in PRESETS:
        close = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f", did you mean {close[0]}?" if close else ";"
        raise RequestError(f"there is no preset {name!r}{hint} `litebert models` lists them")
    return PRESETS[name].config
