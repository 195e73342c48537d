"""litebert: lite language encoders, from raw text to a served model.

The names below are what users import; each is loaded when it is first asked for, so that `import litebert` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litebert.api import FinetuneResult as FinetuneResult
    from litebert.api import compress as compress
    from litebert.api import distill as distill
    from litebert.api import evaluate as evaluate
    from litebert.api import finetune as finetune
    from litebert.api import fit as fit
    from litebert.api import prepare as prepare
    from litebert.api import pretrain as pretrain
    from litebert.api import run_experiments as run_experiments
    from litebert.baselines.fit import FitResult as FitResult
    from litebert.batch import Batch as Batch
    from litebert.config import ModelConfig as ModelConfig
    from litebert.corpus.corpus import Corpus as Corpus
    from litebert.corpus.stream import BatchStream as BatchStream
    from litebert.corpus.stream import StreamConfig as StreamConfig
    from litebert.errors import FolderError as FolderError
    from litebert.errors import LitebertError as LitebertError
    from litebert.inference.export import export as export
    from litebert.inference.index import Index as Index
    from litebert.inference.load import Pipeline as Pipeline
    from litebert.inference.load import load as load
    from litebert.inference.optimize import optimize as optimize
    from litebert.model.model import Model as Model
    from litebert.presets import PRESETS as PRESETS
    from litebert.text.tokenizer import Tokenizer as Tokenizer
    from litebert.text.vocabulary import train_tokenizer as train_tokenizer
    from litebert.training.job import Interrupted as Interrupted
    from litebert.training.job import RunResult as RunResult

__version__ = "0.1.0"
__all__ = [
    "PRESETS",
    "Batch",
    "BatchStream",
    "Corpus",
    "FinetuneResult",
    "FitResult",
    "FolderError",
    "Index",
    "Interrupted",
    "LitebertError",
    "Model",
    "ModelConfig",
    "Pipeline",
    "RunResult",
    "StreamConfig",
    "Tokenizer",
    "compress",
    "distill",
    "evaluate",
    "export",
    "finetune",
    "fit",
    "load",
    "optimize",
    "prepare",
    "pretrain",
    "run_experiments",
    "train_tokenizer",
]

_HOMES = {
    "Batch": "litebert.batch",
    "BatchStream": "litebert.corpus.stream",
    "Corpus": "litebert.corpus.corpus",
    "FolderError": "litebert.errors",
    "Index": "litebert.inference.index",
    "LitebertError": "litebert.errors",
    "Model": "litebert.model.model",
    "ModelConfig": "litebert.config",
    "PRESETS": "litebert.presets",
    "StreamConfig": "litebert.corpus.stream",
    "Tokenizer": "litebert.text.tokenizer",
    "FinetuneResult": "litebert.api",
    "FitResult": "litebert.baselines.fit",
    "Pipeline": "litebert.inference.load",
    "Interrupted": "litebert.training.job",
    "RunResult": "litebert.training.job",
    "compress": "litebert.api",
    "distill": "litebert.api",
    "evaluate": "litebert.api",
    "export": "litebert.inference.export",
    "optimize": "litebert.inference.optimize",
    "finetune": "litebert.api",
    "fit": "litebert.api",
    "load": "litebert.inference.load",
    "prepare": "litebert.api",
    "pretrain": "litebert.api",
    "run_experiments": "litebert.api",
    "train_tokenizer": "litebert.text.vocabulary",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'litebert' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
