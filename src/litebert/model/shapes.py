"""The tensors of a model and their shapes, by arithmetic alone: what a folder must hold. Without torch."""

from litebert.config import Head, ModelConfig
from litebert.model.head_kinds import HEADS
from litebert.model.sharing import block_counts

__all__ = ["Shapes", "tensor_shapes"]

Shapes = dict[str, tuple[int, ...]]


def tensor_shapes(config: ModelConfig, head: Head) -> Shapes:
    """Every tensor of a model by its name in memory, in the order of the modules.

    >>> tensor_shapes(ModelConfig(), "none")["encoder.attention.0.qkv.weight"]
    (2304, 768)
    """
    e, h, f, a = config.embedding_size, config.hidden_size, config.intermediate_size, config.attention_size
    num_attention, num_feed_forward = block_counts(config)
    tables = {"words": config.vocab_size, "positions": config.max_positions, "token_types": config.num_token_types}
    shapes: Shapes = {f"encoder.embeddings.{name}.weight": (size, e) for name, size in tables.items()}
    shapes |= _norm("encoder.embeddings.norm", e)
    if config.projects_embeddings:
        shapes |= _linear("encoder.embeddings.projection", e, h)
    for number in range(num_attention):
        block = f"encoder.attention.{number}"
        shapes |= _linear(f"{block}.qkv", h, 3 * a) | _linear(f"{block}.output", a, h) | _norm(f"{block}.norm", h)
    for number in range(num_feed_forward):
        block = f"encoder.feed_forward.{number}"
        shapes |= _linear(f"{block}.up", h, f) | _linear(f"{block}.down", f, h) | _norm(f"{block}.norm", h)
    if HEADS[head].pools:
        shapes |= _linear("encoder.pooler", h, h)
    return shapes | _head_shapes(config, head)


def _head_shapes(config: ModelConfig, head: Head) -> Shapes:
    e, h = config.embedding_size, config.hidden_size
    match head:
        case "none" | "sentence-embedding":
            return {}
        case "pretraining" | "masked-lm":
            words: Shapes = {"heads.masked_lm.bias": (config.vocab_size,)}
            words |= _linear("heads.masked_lm.dense", h, e) | _norm("heads.masked_lm.norm", e)
            return words | (_linear("heads.sentence", h, 2) if head == "pretraining" else {})
        case "sequence-classification" | "token-classification":
            return _linear("heads.classifier.linear", h, config.num_labels)
        case "multiple-choice":
            return _linear("heads.classifier.linear", h, 1)
        case "question-answering":
            return _linear("heads.spans", h, 2)
        case "answerable-question-answering":
            spans = "heads.answerable_spans"
            shapes = _linear(f"{spans}.start", h, 1) | _linear(f"{spans}.end_dense", 2 * h, h)
            shapes |= _norm(f"{spans}.end_norm", h) | _linear(f"{spans}.end", h, 1)
            return shapes | _linear(f"{spans}.answerable_dense", 2 * h, h) | _linear(f"{spans}.answerable", h, 1)


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, size: int) -> Shapes:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}
