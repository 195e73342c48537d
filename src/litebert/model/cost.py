"""What a model costs, by arithmetic alone: parameters, floating-point operations, bytes. Nothing is run or allocated.

The counts are those of the modules (a test compares them). The bytes of activations are those of `lean/stack.py`
(another test compares them with the measured peak).
"""

from dataclasses import dataclass

from litebert.config import ModelConfig
from litebert.model.sharing import block_counts, layer_plan

__all__ = [
    "MASKED_SHARE",
    "TrainingMemory",
    "checkpoint_bytes",
    "count_encoder_parameters",
    "count_parameters",
    "count_pretraining_parameters",
    "forward_flops",
    "training_flops",
    "training_memory",
]

MASKED_SHARE = 0.15
"""Share of tokens that masked language modelling predicts."""
LONGEST_DENSE_ATTENTION = 256
"""Up to this length training keeps the attention matrix whole; beyond, SDPA works in blocks (measured on two cores)."""
FLOAT_BYTES = 4


def count_parameters(config: ModelConfig) -> dict[str, int]:
    """Parameters of each part of the encoder; what layers share counts once.

    >>> count_parameters(ModelConfig())["attention"]
    2363904
    """
    e, h, f, a = config.embedding_size, config.hidden_size, config.intermediate_size, config.attention_size
    num_attention, num_feed_forward = block_counts(config)
    return {
        "words": config.vocab_size * e,
        "positions": (config.max_positions + config.num_token_types) * e + 2 * e,
        "projection": e * h + h if config.projects_embeddings else 0,
        "attention": num_attention * (3 * (h * a + a) + a * h + h + 2 * h),
        "feed-forward": num_feed_forward * (h * f + f + f * h + h + 2 * h),
        "pooler": h * h + h,
    }


def count_encoder_parameters(config: ModelConfig) -> int:
    """Parameters of the encoder with its pooler.

    >>> count_encoder_parameters(ModelConfig())
    11683584
    """
    return sum(count_parameters(config).values())


def count_pretraining_parameters(config: ModelConfig) -> int:
    """Parameters with the heads of pretraining; the word table that they share with the embeddings counts once.

    >>> count_pretraining_parameters(ModelConfig())
    11813810
    """
    e, h = config.embedding_size, config.hidden_size
    masked_lm = h * e + e + 2 * e + config.vocab_size
    sentence = 2 * h + 2
    return count_encoder_parameters(config) + masked_lm + sentence


def checkpoint_bytes(config: ModelConfig) -> int:
    """Size of `model.safetensors` for a pretraining model in fp32, without its header of a few kB."""
    # transformers' ALBERT has a projection even where E = H, so that the file holds an identity.
    h = config.hidden_size
    identity = h * h + h if config.family == "albert" and not config.projects_embeddings else 0
    written = identity if config.sharing in ("all", "none", "groups") and config.head_size is None else 0
    return FLOAT_BYTES * (count_pretraining_parameters(config) + written)


def forward_flops(config: ModelConfig, length: int, kept: int | None = None, depth: int | None = None) -> float:
    """Floating-point operations of the encoder for one token of a sequence of `length`; a multiply-add counts as two.

    `kept` is the number of positions per sequence that the last layer works for (all, if None); `depth` is the number
    of layers that run (the model's own, if None).
    """
    h, f, a = config.hidden_size, config.intermediate_size, config.attention_size
    per_query = 4 * h * a + 4 * h * f + 4 * length * a  # query and output maps, feed-forward, attention scores and sums
    per_token = 4 * h * a  # key and value maps
    num_passes = len(layer_plan(config, depth))
    queries = num_passes if kept is None else num_passes - 1 + kept / length
    projection = 2 * config.embedding_size * h if config.projects_embeddings else 0
    return projection + num_passes * per_token + queries * per_query


def training_flops(config: ModelConfig, length: int, gathered: bool = True, depth: int | None = None) -> float:
    """Operations of one pretraining step per token: forward, and twice that backward, with both heads.

    `gathered` counts what we run (the last layer for predicted positions alone); otherwise what the textbook runs.
    """
    kept = round(length * MASKED_SHARE) + 1 if gathered else None
    predictions = MASKED_SHARE * 2 * config.embedding_size * (config.hidden_size + config.vocab_size)
    return 3 * (forward_flops(config, length, kept, depth) + predictions)


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes that a pretraining step needs at its peak, by what they are for."""

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        """All tensors together."""
        return self.weights + self.gradients + self.optimizer + self.activations

    @property
    def process(self) -> int:
        """What the process holds beyond its bare libraries: the tensors, gaps between them, and BLAS' own buffers.

        Both allowances are measured (`tests/planning/test_memory.py`); glibc's heap leaves about a fifth unused.
        """
        return round(1.2 * self.total) + 100_000_000


def training_memory(
    config: ModelConfig, batch: int, length: int, recompute: bool = False, gathered: bool = True
) -> TrainingMemory:
    """Estimate the peak of one pretraining step with AdamW in fp32; `gathered` as in `training_flops`."""
    parameters = FLOAT_BYTES * count_pretraining_parameters(config)
    activations = FLOAT_BYTES * _peak_activations(config, batch, length, recompute, gathered)
    return TrainingMemory(parameters, parameters, 2 * parameters, activations)


def _peak_activations(config: ModelConfig, batch: int, length: int, recompute: bool, gathered: bool) -> int:
    """Numbers held at the peak: in the masked-LM head, or in the backward pass of the last full layer."""
    tokens, predicted = batch * length, round(batch * length * MASKED_SHARE)
    num_passes = len(layer_plan(config))
    kept = predicted + batch  # rows of the last layer
    full = tokens * _kept_per_token(config, length)
    last = kept * _kept_per_token(config, length) + 2 * tokens * config.attention_size if gathered else full
    inputs = tokens * config.hidden_size
    before_last = (num_passes - 1) * (inputs if recompute else full)
    embeddings = 3 * tokens * config.embedding_size + inputs
    predictions = predicted * 3 * config.vocab_size  # logits, their log-softmax, its gradient
    in_head = before_last + (inputs if recompute else last) + predictions
    wide = tokens * (3 * config.intermediate_size + 3 * config.hidden_size)  # temporaries of one layer's gradient
    in_layer = before_last + (full if recompute or not gathered else 0) + (wide if num_passes > 1 else 0)
    return embeddings + max(in_head, in_layer)


def _kept_per_token(config: ModelConfig, length: int) -> int:
    """Numbers that one layer keeps of each token for its backward pass."""
    h, f, a, scores = config.hidden_size, config.intermediate_size, config.attention_size, config.num_heads * length
    dense = length <= LONGEST_DENSE_ATTENTION
    if config.hidden_dropout or config.attention_dropout:  # plain autograd: activation, masks and sums as well
        return 8 * h + 4 * a + 2 * f + 3 * scores
    # Input, query, key and value, attended states, two sums and the state between; the raised state.
    return 4 * h + 4 * a + f + (scores if dense else a)
