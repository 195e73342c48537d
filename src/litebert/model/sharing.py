"""Which layer uses which weights: the paper's cross-layer sharing, as data.

An encoder keeps a list of attention blocks and a list of feed-forward blocks. A plan of index pairs says which two
blocks each layer uses. Every sharing strategy of the paper is one line below; no other module knows about them.
"""

from litebert.config import ModelConfig
from litebert.errors import RequestError

__all__ = ["LayerPlan", "at_depth", "block_counts", "layer_plan", "max_depth", "spread", "without_sharing"]

LayerPlan = list[tuple[int, int]]
"""For each layer that runs: (index of the attention block, index of the feed-forward block)."""


def layer_plan(config: ModelConfig, depth: int | None = None) -> LayerPlan:
    """Say which attention block and which feed-forward block each layer uses.

    `depth` runs the same weights at another number of layers, up to `max_depth`. ALBERT ("all") runs one layer again
    and again; BERT ("none") has its own weights in every layer.

    >>> layer_plan(ModelConfig(num_layers=3, sharing="attention"))
    [(0, 0), (0, 1), (0, 2)]
    >>> layer_plan(ModelConfig(num_layers=6, sharing="groups", num_groups=2))
    [(0, 0), (0, 0), (0, 0), (1, 1), (1, 1), (1, 1)]
    >>> layer_plan(ModelConfig(num_layers=6, sharing="groups", num_groups=3), depth=2)
    [(0, 0), (2, 2)]
    """
    num_layers = config.num_layers if depth is None else depth
    if not 1 <= num_layers <= max_depth(config):
        raise RequestError(f"depth must be between 1 and {max_depth(config)} for this model, not {num_layers}")
    layers = range(num_layers)
    match config.sharing:
        case "all":
            return [(0, 0) for _ in layers]
        case "attention":
            return [(0, layer) for layer in layers]
        case "ffn":
            return [(layer, 0) for layer in layers]
        case "none":
            return [(layer, layer) for layer in layers]
        case "groups":
            # Integers on purpose: the float formula of the older codes sends some layers to the wrong group.
            count = config.num_groups
            groups = [layer * count // num_layers for layer in layers]
            if num_layers < count:  # the first block reads words, the last one makes what is read: both always run
                groups = spread(num_layers, count)
            inner = config.num_inner_layers
            return [(group * inner + i, group * inner + i) for group in groups for i in range(inner)]


def spread(count: int, total: int) -> list[int]:
    """Some of so many layers, evenly from the first to the last; a single one is the last.

    >>> spread(3, 6), spread(2, 6), spread(1, 6)
    ([0, 3, 5], [0, 5], [5])
    """
    if count == 1:
        return [total - 1]
    return [(2 * number * (total - 1) + count - 1) // (2 * (count - 1)) for number in range(count)]


def max_depth(config: ModelConfig) -> int:
    """Say how many layers the weights can run: 2L where whole layers are shared, else the L that exist."""
    return 2 * config.num_layers if config.sharing in ("all", "groups") else config.num_layers


def at_depth(config: ModelConfig, depth: int) -> ModelConfig:
    """The shape of an encoder that is what this one runs at a depth, and has no block beyond that.

    >>> at_depth(ModelConfig(num_layers=6, sharing="groups", num_groups=3), 2).num_groups
    2
    """
    layer_plan(config, depth)  # says what cannot be
    return config.updated(num_layers=depth, num_groups=min(config.num_groups, depth))


def block_counts(config: ModelConfig) -> tuple[int, int]:
    """Say how many distinct attention and feed-forward blocks exist.

    >>> block_counts(ModelConfig(sharing="ffn"))
    (12, 1)
    """
    plan = layer_plan(config)
    return 1 + max(attention for attention, _ in plan), 1 + max(ffn for _, ffn in plan)


def without_sharing(config: ModelConfig) -> ModelConfig:
    """BERT of the same shape: its own weights in every layer that runs, and word vectors as wide as the layers.

    >>> bert = without_sharing(ModelConfig())
    >>> bert.embedding_size, block_counts(bert)
    (768, (12, 12))
    """
    return config.updated(
        family="bert",
        embedding_size=config.hidden_size,
        sharing="none",
        num_groups=1,
        num_inner_layers=1,
        num_layers=len(layer_plan(config)),
        project_square_embeddings=False,
    )
