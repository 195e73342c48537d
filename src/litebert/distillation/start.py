"""How a student begins: with as much of its teacher's weights as fits into it.

A BERT has a word table of size H and layers of their own; an ALBERT has a table of size E, a map E→H, and one layer for
all. The table is cut down by a singular value decomposition, the map is fitted by least squares to what the teacher's
embeddings give, and a layer is copied from the teacher. What does not fit stays as it was drawn.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.config import ModelConfig
from litebert.distillation.prune import prune
from litebert.model.encoder import Encoder
from litebert.model.layers import Embeddings
from litebert.model.model import Model
from litebert.model.sharing import layer_plan, spread
from litebert.text.tokenizer import Tokenizer

__all__ = [
    "LayerChoice",
    "begin_from_teacher",
    "choose_layers",
    "copy_layers",
    "factorize_embeddings",
    "translate_words",
]

LayerChoice = Literal["spread", "average"]
_SMALL = 1e-3  # of the largest singular value: what is below is not inverted


@torch.no_grad()
def begin_from_teacher(student: Model, teacher: Model, sample: Tensor, words: Tensor | None = None) -> None:
    """Give a student what it can take of its teacher: embeddings, layers, pooler.

    `sample` (rows, tokens) are ids of real text. `words` is the teacher's word table in the order of the student's
    vocabulary, if that is another one.
    """
    old, new = teacher.encoder, student.encoder
    table = _fit_rows(old.embeddings.words.weight if words is None else words, new.config.vocab_size)
    embeddings = {**old.embeddings.state_dict(), "words.weight": table}
    if _shapes(embeddings) == _shapes(new.embeddings.state_dict()):
        new.embeddings.load_state_dict(embeddings)
    elif new.config.hidden_size == old.config.hidden_size and new.config.projects_embeddings:
        factorize_embeddings(new.embeddings, old.embeddings, table, sample, words is None)
    copy_layers(new, _narrow(teacher, table, new.config, sample).encoder)
    if new.pooler is not None and old.pooler is not None and _same_shapes(old.pooler, new.pooler):
        new.pooler.load_state_dict(old.pooler.state_dict())


@torch.no_grad()
def factorize_embeddings(
    new: Embeddings, old: Embeddings, table: Tensor, sample: Tensor, same_ids: bool = True
) -> None:
    """Fill smaller tables and the map that follows them, so that they give about what the larger ones give.

    `table` are the words of the larger embeddings. Where the ids mean the same in both (`same_ids`), the map is fitted
    to real text, else to each word by itself.
    """
    size, most = new.words.embedding_dim, min(table.shape)
    mean = table.mean(0)
    left, values, right = torch.linalg.svd(table - mean, full_matrices=False)
    kept = min(size, most)
    directions = right[:kept].T  # (old size, kept)
    new.words.weight.zero_()
    new.words.weight[:, :kept] = left[:, :kept] * values[:kept]
    for name in ("positions", "token_types"):
        source, target = getattr(old, name).weight, getattr(new, name).weight
        count = min(len(source), len(target))
        target[:count, :kept] = source[:count] @ directions
        target[:count, kept:] = 0
    new.norm.reset_parameters()
    if same_ids:
        inputs = _embed(new, new.words(sample))
        outputs = old.projection(_embed(old, old.words(sample)))
    else:
        some = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[:20_000]
        inputs = _embed(new, new.words.weight[some][:, None])
        outputs = old.projection(_embed(old, table[some][:, None]))
    inputs, outputs = inputs.flatten(0, 1), outputs.flatten(0, 1)
    ones = inputs.new_ones(len(inputs), 1)
    # Through the normal equations: the sample is tall, and words that it lacks leave directions empty.
    inputs = torch.cat([inputs, ones], 1).double()
    solution = torch.linalg.pinv(inputs.T @ inputs, rtol=_SMALL**2, hermitian=True) @ (inputs.T @ outputs.double())
    assert isinstance(new.projection, nn.Linear)
    new.projection.weight.copy_(solution[:-1].T)
    new.projection.bias.copy_(solution[-1])


def _embed(embeddings: Embeddings, words: Tensor) -> Tensor:
    """What embeddings give for the vectors of words, before their map: (rows, tokens, size)."""
    return embeddings.norm(words + embeddings.positions.weight[: words.shape[1]] + embeddings.token_types.weight[0])  # type: ignore[no-any-return]


@torch.no_grad()
def copy_layers(student: Encoder, teacher: Encoder, choice: LayerChoice = "spread") -> None:
    """Give each block of the student the weights of a teacher's layer, or the mean of those that it stands for.

    `spread`: layers from the first, which reads words, to the last, which makes what the teacher says. Blocks of other
    sizes stay as they are.
    """
    for name in ("attention", "feed_forward"):
        old, new = getattr(teacher, name), getattr(student, name)
        chosen = choose_layers(student.config, len(new), len(old))
        for number, block in enumerate(new):
            if not _same_shapes(old[0], block):
                return
            if choice == "spread":
                block.load_state_dict(old[chosen[number]].state_dict())
            else:
                begin, end = number * len(old) // len(new), max(1, (number + 1) * len(old) // len(new))
                states = [layer.state_dict() for layer in old[min(begin, end - 1) : end]]
                block.load_state_dict({key: torch.stack([one[key] for one in states]).mean(0) for key in states[0]})


def choose_layers(student: ModelConfig, count: int, total: int) -> list[int]:
    """Which of so many layers of a teacher the blocks of a student begin with.

    Blocks that run again and again are spread over them. Where every layer has a block of its own, they are the first
    ones and the last: what reads two texts in a row is lost when lower layers are left out (docs/LOG.md).

    >>> choose_layers(ModelConfig(num_layers=6, sharing="groups", num_groups=3), 3, 6)
    [0, 3, 5]
    >>> choose_layers(ModelConfig(num_layers=5, sharing="groups", num_groups=5), 5, 6)
    [0, 1, 2, 3, 5]
    """
    plan = layer_plan(student)
    if len(set(plan)) < len(plan) or count < len(plan):
        return spread(count, total)
    return [*(min(number, total - 1) for number in range(count - 1)), total - 1]


def _narrow(teacher: Model, words: Tensor, student: ModelConfig, sample: Tensor) -> Model:
    """The teacher with as few heads and feed-forward units as its student has: those that matter most for a text."""
    there = teacher.config
    keep, keep_heads = student.intermediate_size / there.intermediate_size, student.num_heads / there.num_heads
    if keep > 1 or keep_heads > 1 or keep == keep_heads == 1 or student.hidden_size != there.hidden_size:
        return teacher
    reader = Model(there.updated(vocab_size=len(words)), teacher.head)
    reader.load_state_dict({**teacher.state_dict(), "encoder.embeddings.words.weight": words})
    mask = (sample != student.pad_token_id).long()
    return prune(reader, [Batch(sample, attention_mask=mask)], keep, keep_heads)


def _fit_rows(table: Tensor, count: int) -> Tensor:
    """A word table with so many rows; those beyond the pieces of the tokenizer are never read."""
    return torch.cat([table[:count], table.mean(0).expand(max(0, count - len(table)), -1)])


def _same_shapes(old: nn.Module, new: nn.Module) -> bool:
    return _shapes(old.state_dict()) == _shapes(new.state_dict())


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


@torch.no_grad()
def translate_words(teacher: Model, known: Tokenizer, wanted: Tokenizer) -> Tensor:
    """The teacher's word table for another vocabulary: of each piece, the mean of the teacher's pieces of its text."""
    table = teacher.encoder.embeddings.words.weight
    texts = [wanted.decode([token]) for token in range(wanted.vocab_size)]
    ids, counts = known.encode_plain(texts)
    owner = torch.repeat_interleave(torch.arange(len(texts)), torch.from_numpy(counts))
    found = torch.zeros(len(texts), table.shape[1]).index_add_(0, owner, table[torch.from_numpy(ids).long()])
    found /= torch.from_numpy(counts).clamp(min=1)[:, None]
    found[torch.from_numpy(counts) == 0] = table.mean(0)
    for name in ("cls_id", "sep_id", "mask_id", "pad_id", "unknown_id"):
        found[getattr(wanted, name)] = table[getattr(known, name)]
    return found
