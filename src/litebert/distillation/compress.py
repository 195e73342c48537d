"""Compression: a trained encoder becomes a smaller one, by one of six methods.

- share: the layers of a BERT become one block, or a few, that run again and again, as in ALBERT.
- low-rank: the word table becomes narrow, with a map behind it, as in ALBERT (`low_rank.py`).
- trim: the vocabulary loses pieces that the text hardly needs, and the word table their rows (`trim.py`).
- prune: attention heads and feed-forward units that matter least are taken out (`prune.py`).
- distill: a student is taught (`job.py`).
- quantize: the same model, stored as whole numbers of eight bits (`model/hf/int8.py`).

What a method breaks can be healed: the smaller model is then taught by the original, as a student by its teacher.
"""

import copy
import random
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from litebert.batch import Batch
from litebert.config import ModelConfig
from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus
from litebert.corpus.stream import BatchStream, StreamConfig
from litebert.distillation.job import distill
from litebert.distillation.low_rank import PREDICTS_WORDS, factorize_words
from litebert.distillation.prune import prune, shape_pruned
from litebert.distillation.settings import choose_distillation, resume_distillation
from litebert.distillation.start import LayerChoice, copy_layers
from litebert.distillation.trim import choose_pieces, count_pieces, trim_words
from litebert.errors import RequestError
from litebert.folders import RUN_MODEL, remove_folder
from litebert.hub import resolve
from litebert.model.hf.checkpoint import is_half, measure_weights, write_folder
from litebert.model.hf.int8 import SCALE, dequantize, quantize_tensors
from litebert.model.hf.names import is_expressible
from litebert.model.model import Model, to_arrays
from litebert.model.sharing import block_counts, layer_plan
from litebert.quantities import format_bytes
from litebert.text.sources import Document, Reader
from litebert.text.tokenizer import Tokenizer
from litebert.training.job import OnMessage, OnStep, RunResult
from litebert.training.run_folder import RunFolder
from litebert.training.settings import seconds_of

__all__ = [
    "METHODS",
    "CompressResult",
    "Compressed",
    "Healing",
    "HealingFolder",
    "Sample",
    "check_request",
    "choose_healing",
    "compress",
    "compress_model",
    "measure_agreement",
    "read_sample",
    "sample_corpus",
    "share_layers",
]

METHODS: dict[str, tuple[str, ...]] = {
    "share": ("blocks", "layers"),
    "low-rank": ("embedding_size",),
    "trim": ("vocab_size",),
    "prune": ("keep", "keep_heads"),
    "distill": (),
    "quantize": (),
}
"""The methods, and the options that each of them takes."""
WORD_SIZE = 128
"""Size of the word table after low-rank, if none is named."""
KEPT_UNITS = 0.5
"""Share of the feed-forward units that pruning keeps, if none is named."""
HEAL_TIME = "10m"
"""How long distillation takes, if no time is named."""
_HEALING_RATES = {"share": 5e-4, "low-rank": 2e-4, "prune": 2e-4}  # the more is broken, the faster
_FIT_ROWS, _MEASURE_ROWS = 512, 128  # of text: to choose and fit weights by, and to compare with the original on
_LEAST_TEXTS, _LEAST_MEASURED = 8, 3
_LENGTH = 128  # tokens of a row
_ROWS = 32  # that run together
_POOL = 20_000  # paragraphs among which rows are drawn
_SHORTEST = 20  # characters of a paragraph
_GAP = re.compile(r"\n\s*\n")
_DISTILLATION = "## Distillation"
_INT8_NOTE = (
    "The file has a quarter of the bytes. Its numbers are brought back to fp32 when the folder is opened, so that "
    "memory and speed are those of the original: the speed of int8 arithmetic is not in it."
)


# --- the methods ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compressed:
    """A smaller model, and what was done to make it."""

    model: Model
    done: str
    int8: bool = False
    """Whether it is to be stored as whole numbers of eight bits."""
    tokenizer: Tokenizer | None = None
    """Its own tokenizer, if that is another one than the original's."""

    @property
    def opens_in_transformers(self) -> bool:
        """Whether transformers opens its folder, or litebert alone."""
        return is_expressible(self.model.config) and not self.int8


def check_request(config: ModelConfig, method: str, options: Mapping[str, Any]) -> None:
    """Refuse a method that does not exist, options of another method, and what a model of this shape cannot become."""
    if method not in METHODS:
        raise RequestError(f"there is no method {method!r}: choose one of {', '.join(METHODS)}")
    for name in options:
        if name not in METHODS[method]:
            owner = next(other for other, names in METHODS.items() if name in names)
            raise RequestError(f"--{name.replace('_', '-')} is for --method {owner}: leave it out with {method}")
    match method:
        case "share":
            _check_blocks(config, options.get("blocks", usual_blocks(config)))
            if (layers := options.get("layers", "spread")) not in get_args(LayerChoice):
                raise RequestError(f"--layers must be one of {', '.join(get_args(LayerChoice))}, not {layers!r}")
        case "low-rank":
            size, old = options.get("embedding_size", WORD_SIZE), config.embedding_size
            if not 2 <= size < old:
                raise RequestError(f"--embedding-size must be below the word table's size, {old}, not {size}")
        case "trim":
            size = options.get("vocab_size", _half_vocabulary(config))
            if not 2 <= size < config.vocab_size:
                raise RequestError(f"--vocab-size must be below the model's {config.vocab_size:,} pieces, not {size:,}")
        case "prune":
            if shape_pruned(config, *_shares(options)) == config:
                raise RequestError("nothing is to be pruned: keep less than all with --keep or --keep-heads")


def _check_blocks(config: ModelConfig, blocks: int) -> None:
    num_layers = len(layer_plan(config))
    if not 1 <= blocks <= num_layers or (num_layers % blocks and blocks < max(block_counts(config))):
        fitting = [str(count) for count in range(1, num_layers) if num_layers % count == 0]
        raise RequestError(f"{blocks} blocks cannot share {num_layers} layers evenly: choose {' or '.join(fitting)}")


def usual_blocks(config: ModelConfig) -> int:
    """How many blocks layers share if nobody says: three or two, if that is fewer than there are, and even.

    >>> [usual_blocks(ModelConfig(num_layers=number, sharing="none")) for number in (12, 4, 3)]
    [3, 2, 1]
    """
    num_layers, found = len(layer_plan(config)), max(block_counts(config))
    return next((count for count in (3, 2) if num_layers % count == 0 and count < found), 1)


def _shares(options: Mapping[str, Any]) -> tuple[float, float]:
    """What is kept of units and heads; where heads alone are named, all units stay."""
    heads = options.get("keep_heads", 1.0)
    return options.get("keep", KEPT_UNITS if heads == 1 else 1.0), heads


def _half_vocabulary(config: ModelConfig) -> int:
    return config.vocab_size // 2


def compress_model(model: Model, method: str, options: Mapping[str, Any], text: Sequence[Batch]) -> Compressed:
    """Make a smaller model by any method that needs no run; `text` are rows of real text with their masks."""
    check_request(model.config, method, options)
    match method:
        case "share":
            return share_layers(model, **options)
        case "low-rank":
            return _shrink_words(model, text, **options)
        case "prune":
            return _prune_model(model, text, *_shares(options))
        case "quantize":
            return _store_as_int8(model)
    raise RequestError(f"{method} needs a run: call litebert.compress")


@torch.no_grad()
def share_layers(model: Model, blocks: int | None = None, layers: LayerChoice = "spread") -> Compressed:
    """Make a few blocks of all layers: some of them, from the first to the last, or means of those that they stand for.

    A model that has no more blocks than that stays as it is.
    """
    blocks = usual_blocks(model.config) if blocks is None else blocks
    _check_blocks(model.config, blocks)
    plan, found = layer_plan(model.config), max(block_counts(model.config))
    if found <= blocks:
        noun = "block" if found == 1 else "blocks"
        return Compressed(copy.deepcopy(model), f"nothing, as its layers share {found} {noun} already")
    apart = _without_sharing(model)
    sharing = {"sharing": "groups", "num_groups": blocks} if blocks > 1 else {"sharing": "all"}
    shared = Model(apart.config.updated(family="albert", **sharing), model.head).eval()
    copy_layers(shared.encoder, apart.encoder, layers)
    _copy_all_but_blocks(shared, model)
    noun = "1 block" if blocks == 1 else f"{blocks} blocks"
    if layers == "average":
        made = "the mean of all" if blocks == 1 else "each the mean of those that it stands for"
    else:
        made = "the last of them" if blocks == 1 else "copies of the first to the last"
    return Compressed(shared, f"{len(plan)} layers share {noun}, {made}")


def _without_sharing(model: Model) -> Model:
    """The same model with every layer of its plan written out."""
    plan = layer_plan(model.config)
    changes: dict[str, Any] = {"sharing": "none", "num_groups": 1, "num_inner_layers": 1, "num_layers": len(plan)}
    apart = Model(model.config.updated(**changes), model.head).eval()
    for number, (attention, feed_forward) in enumerate(plan):
        apart.encoder.attention[number].load_state_dict(model.encoder.attention[attention].state_dict())
        apart.encoder.feed_forward[number].load_state_dict(model.encoder.feed_forward[feed_forward].state_dict())
    return apart


def _copy_all_but_blocks(target: Model, source: Model) -> None:
    blocks = ("encoder.attention.", "encoder.feed_forward.")
    others = {name: tensor for name, tensor in source.state_dict().items() if not name.startswith(blocks)}
    target.load_state_dict(others, strict=False)


def _shrink_words(model: Model, text: Sequence[Batch], embedding_size: int = WORD_SIZE) -> Compressed:
    """Give a model a narrower word table with a map behind it; its layers stay."""
    done = f"a word table of size {embedding_size} instead of {model.config.embedding_size}"
    if model.head in PREDICTS_WORDS:
        done += f", without the head {model.head}, which predicts words by the old one"
    return Compressed(factorize_words(model, text, embedding_size), done)


def _trim_vocabulary(
    model: Model, tokenizer: Tokenizer, text: Corpus | Reader, vocab_size: int | None = None
) -> Compressed:
    """Take pieces out of the vocabulary, and their rows out of the word table."""
    counts = count_pieces(text, tokenizer)
    kept = choose_pieces(counts, tokenizer, vocab_size or _half_vocabulary(model.config))
    share = counts[kept].sum() / max(1, counts.sum())
    done = f"{len(kept):,} of {tokenizer.vocab_size:,} pieces, which are {share:.1%} of the text"
    return Compressed(trim_words(model, kept), done, tokenizer=tokenizer.keep(kept))


def _prune_model(model: Model, text: Sequence[Batch], keep: float, keep_heads: float) -> Compressed:
    """Take units and heads out."""
    old, new = model.config, shape_pruned(model.config, keep, keep_heads)
    parts = {
        "feed-forward units": (new.intermediate_size, old.intermediate_size),
        "attention heads": (new.num_heads, old.num_heads),
    }
    kept = [f"{left:,} of {all_:,} {name}" for name, (left, all_) in parts.items() if left < all_]
    return Compressed(prune(model, text, keep, keep_heads), f"{' and '.join(kept)} kept in each layer")


@torch.no_grad()
def _store_as_int8(model: Model) -> Compressed:
    """The model as it is once it has been stored and read again."""
    stored = quantize_tensors(to_arrays(model.state_dict()))
    restored = Model(model.config, model.head).eval()
    restored.load_state_dict(
        {
            name: torch.from_numpy(dequantize(array, stored[name + SCALE]) if name + SCALE in stored else array)
            for name, array in stored.items()
            if not name.endswith(SCALE)
        }
    )
    return Compressed(restored, "matrices stored as int8 with a scale for each row, computed in fp32", int8=True)


# --- text to choose and to measure by ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Rows of real text: some to choose and fit weights by, others to compare models on."""

    fit: list[Batch]
    held_out: list[Batch]


def read_sample(documents: Iterable[Document], tokenizer: Tokenizer, longest: int) -> Sample:
    """Draw paragraphs from the beginning of a text, always the same ones."""
    found = (part for document in documents for part in _GAP.split(document.text) if len(part) >= _SHORTEST)
    texts = list(islice(found, _POOL))
    if len(texts) < _LEAST_TEXTS:
        raise RequestError(f"the text has fewer than {_LEAST_TEXTS} paragraphs to judge a model by: name more of it")
    random.Random(0).shuffle(texts)
    count = min(_MEASURE_ROWS, len(texts) // 4)
    chosen = (texts[count : count + _FIT_ROWS], texts[:count])
    return Sample(*(_encode(part, tokenizer, min(_LENGTH, longest)) for part in chosen))


def _encode(texts: list[str], tokenizer: Tokenizer, length: int) -> list[Batch]:
    """Rows in batches of like length."""
    encoded = tokenizer.encode(texts, max_length=length)
    ids, mask = (torch.from_numpy(array.astype(np.int64)) for array in (encoded.input_ids, encoded.attention_mask))
    order = mask.sum(1).argsort(stable=True)
    groups = [order[begin : begin + _ROWS] for begin in range(0, len(order), _ROWS)]
    widths = [int(mask[rows].sum(1).max()) for rows in groups]
    return [Batch(ids[rows, :width], mask[rows, :width]) for rows, width in zip(groups, widths, strict=True)]


def sample_corpus(corpus: Corpus, longest: int) -> Sample:
    """Rows of a corpus: of its training text to fit by, of its held-out text to measure on."""
    stream = StreamConfig(length=min(_LENGTH, longest), pairs="none", mask_rate=0.0, short_rate=1.0, packing=False)

    def take(split: str, count: int) -> list[Batch]:
        batches = islice(BatchStream(corpus, stream, split).epoch(_ROWS), -(-count // _ROWS))
        return [Batch(batch.input_ids, batch.attention_mask) for batch in batches]

    return Sample(take(TRAIN, _FIT_ROWS), take(HELD_OUT, _MEASURE_ROWS))


def _read_again(text: Sequence[Batch], known: Tokenizer, wanted: Tokenizer, longest: int) -> list[Batch]:
    """The same rows in the pieces of another tokenizer."""
    found = []
    for batch in text:
        assert batch.attention_mask is not None
        rows = zip(batch.input_ids.tolist(), batch.attention_mask.sum(1).tolist(), strict=True)
        encoded = wanted.encode([known.decode(ids[:length]) for ids, length in rows], max_length=longest)
        found.append(Batch(*(torch.from_numpy(array) for array in (encoded.input_ids, encoded.attention_mask))))
    return found


@torch.no_grad()
def measure_agreement(
    model: Model, original: Model, text: Sequence[Batch], own_text: Sequence[Batch] | None = None
) -> float:
    """Correlation of the cosines between texts in two models, over all pairs; vectors are means of the last states.

    `own_text` are the same texts in the pieces of the first model, if it has others.
    """
    if sum(len(batch.input_ids) for batch in text) < _LEAST_MEASURED:
        raise RequestError("the text is too short to measure by: name more of it with --text")
    cosines = []
    for one, rows in ((model, own_text or text), (original, text)):
        vectors = F.normalize(torch.cat([_mean_states(one, batch) for batch in rows]), dim=-1)
        pairs = torch.triu_indices(len(vectors), len(vectors), offset=1)
        cosines.append((vectors @ vectors.T)[pairs[0], pairs[1]])
    return float(torch.corrcoef(torch.stack(cosines))[0, 1].nan_to_num())


def _mean_states(model: Model, batch: Batch) -> Tensor:
    assert batch.attention_mask is not None
    states: Tensor = model.encoder(batch.input_ids, batch.attention_mask)
    mask = batch.attention_mask[:, :, None].to(states.dtype)
    return (states * mask).sum(1) / mask.sum(1)


# --- healing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Healing:
    """How long a smaller model learns from the original, and settings of that run, such as train.optim.lr=1e-3."""

    seconds: float | None = None
    steps: int | None = None
    settings: tuple[str, ...] = ()


def choose_healing(
    method: str, heal: str | float | None = None, steps: int | None = None, settings: Sequence[str] = ()
) -> Healing | None:
    """The healing that was asked for. Distillation is nothing else; the other methods have none unless it is asked."""
    if heal is not None and steps is not None:
        raise RequestError("--heal and --steps both say how long to heal: leave one of them out")
    if method == "distill" and steps is None:
        heal = heal or HEAL_TIME
    if heal is None and steps is None:
        if settings:
            raise RequestError("--set is for the run that heals: ask for one with --heal")
        return None
    if method == "quantize":
        raise RequestError("whole numbers of eight bits cannot be healed: compress and heal first, then quantize")
    if method == "trim":
        raise RequestError(
            "a trimmed model reads other pieces than the original, which cannot heal it: leave out --heal"
        )
    return Healing(None if heal is None else seconds_of(heal, "--heal"), steps, tuple(settings))


@dataclass(frozen=True)
class HealingFolder:
    """Where a model is healed, beside the folder that it will have. It goes when that is complete."""

    path: Path

    @classmethod
    def beside(cls, out: Path) -> "HealingFolder":
        """The folder for a model that is to be written to `out`."""
        return cls(out.with_name(out.name + "-healing"))

    @property
    def student(self) -> Path:
        """The compressed model before it is healed."""
        return self.path / "student"

    @property
    def run(self) -> Path:
        """The run that heals it."""
        return self.path / "run"

    def remove_unbegun(self) -> None:
        """Remove what was made for a run that never began."""
        if self.path.is_dir() and not RunFolder(self.run).exists:
            remove_folder(self.path)


def _heal(
    name: str,
    method: str,
    student: Model | None,
    corpus: Corpus,
    folder: HealingFolder,
    healing: Healing,
    resume: bool,
    on_step: OnStep | None,
    on_message: OnMessage,
) -> RunResult:
    """Teach a model what the original makes of text; without a student, teach the one that distillation would make."""
    options: dict[str, Any] = {"budget": healing.seconds, "steps": healing.steps}
    settings = list(healing.settings)
    if student is not None:
        shape = student.config.updated(hidden_dropout=0.0, attention_dropout=0.0)
        write_folder(folder.student, shape, student.head, to_arrays(student.state_dict()), corpus.tokenizer)
        # All the time goes into what the model is: its own depth, and whole vectors.
        options |= {"model": str(folder.student), "depths": (shape.num_layers,), "lr": _HEALING_RATES[method]}
        settings = ["dimensions=[]", *settings]
    given = {option: value for option, value in options.items() if value is not None}
    if resume:
        config = resume_distillation(folder.run, name, corpus, given, None, settings)
    else:
        config = choose_distillation(name, corpus, given, None, settings)
    return distill(corpus, folder.run, config, resume=resume, on_step=on_step, on_message=on_message)


def _take_healed(compressed: Compressed, run: RunResult) -> Compressed:
    """The compressed model with the encoder that healing made of it; its head stays as it was."""
    healed, known = Model.from_pretrained(run.model).encoder.state_dict(), compressed.model.encoder.state_dict()
    compressed.model.encoder.load_state_dict(known | {name: healed[name] for name in known if name in healed})
    return compressed


# --- the whole of it --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class CompressResult:
    """What came of a compression: sizes before and after, and how well the model still agrees with the original."""

    folder: Path
    method: str
    status: Literal["finished", "interrupted"]
    done: str
    """What was done, in words."""
    parameters: tuple[int, int]
    weight_bytes: tuple[int, int]
    agreement: float | None
    """Correlation of the cosines between held-out texts with the original's, once the model is finished."""
    opens_in_transformers: bool
    healing: RunResult | None = None
    """The run that taught the smaller model, if there was one."""

    @property
    def signal(self) -> int | None:
        """The signal that interrupted the healing."""
        return None if self.healing is None else self.healing.signal

    def __repr__(self) -> str:
        sizes = " → ".join(format_bytes(size) for size in self.weight_bytes)
        parameters = " → ".join(f"{count:,}" for count in self.parameters)
        parts = [self.method, self.status, f"{parameters} parameters", sizes]
        parts += [] if self.agreement is None else [f"agreement {self.agreement:.3f}"]
        return f"<{type(self).__name__} {str(self.folder)!r}: {', '.join(parts)}>"


def compress(
    name: str,
    method: str,
    out: Path,
    options: Mapping[str, Any],
    text: Corpus | Reader,
    healing: Healing | None = None,
    *,
    text_name: str = "the text",
    extra_files: Mapping[str, str | bytes] | None = None,
    resume: bool = False,
    on_step: OnStep | None = None,
    on_message: OnMessage = lambda message: None,
) -> CompressResult:
    """Compress a trained model into a new folder; where it is to be healed, the text must be a corpus.

    `extra_files` belong to the model's head. Interrupted while it heals, nothing is written to `out`, and the same call
    goes on with `resume`.
    """
    folder = resolve(name)
    with torch.random.fork_rng():
        torch.manual_seed(0)  # a pooler that the folder lacks is drawn: the same every time
        original, tokenizer = Model.from_pretrained(folder), Tokenizer.from_pretrained(folder)
    if tokenizer.vocab_size > original.config.vocab_size:
        raise RequestError(f"the tokenizer of {name} has more pieces than its model knows: they do not belong together")
    on_message(f"reading {text_name}")
    longest = original.config.max_positions
    sample = sample_corpus(text, longest) if isinstance(text, Corpus) else read_sample(text, tokenizer, longest)
    compressed = Compressed(original, "")
    if method == "trim":
        compressed = _trim_vocabulary(original, tokenizer, text, **options)
    elif method != "distill":
        compressed = compress_model(original, method, options, sample.fit)
    run: RunResult | None = None
    if healing is not None:
        assert isinstance(text, Corpus)
        student = None if method == "distill" else compressed.model
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "transformers (cannot|has no)")  # that is said of the final folder
            run = _heal(name, method, student, text, HealingFolder.beside(out), healing, resume, on_step, on_message)
        if run.status == "finished":
            compressed = _describe_student(original, run) if student is None else _take_healed(compressed, run)
    new = compressed.model
    result = CompressResult(
        folder=out,
        method=method,
        status="finished" if run is None else run.status,
        done=compressed.done,
        parameters=(_count_parameters(original), _count_parameters(new)),
        weight_bytes=(measure_weights(folder), 0),
        agreement=None,
        opens_in_transformers=compressed.opens_in_transformers,
        healing=run,
    )
    if result.status == "interrupted":
        return result
    own = compressed.tokenizer
    own_text = None if own is None else _read_again(sample.held_out, tokenizer, own, longest)
    result = replace(result, agreement=measure_agreement(new, original, sample.held_out, own_text))
    kept_files = extra_files if new.head == original.head else None
    _save(result, compressed, own or tokenizer, _name_model(name), text_name, kept_files, half=is_half(folder))
    if run is not None:
        remove_folder(HealingFolder.beside(out).path)
    return replace(result, weight_bytes=(result.weight_bytes[0], measure_weights(out)))


def _name_model(name: str) -> str:
    """What to call a model: its folder, or the one above if that is just called `model`."""
    path = Path(name)
    return path.resolve().parent.name if path.name == RUN_MODEL else path.name


def _count_parameters(model: Model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _describe_student(original: Model, run: RunResult) -> Compressed:
    """The student of a distillation, which has no head but the mean of its states."""
    student = Model.from_pretrained(run.model)
    done = f"a student with {max(block_counts(student.config))} blocks and words of {student.config.embedding_size}"
    lost = "" if original.head in ("none", student.head) else f", without the head {original.head}"
    return Compressed(student, done + lost)


def _save(
    result: CompressResult,
    compressed: Compressed,
    tokenizer: Tokenizer,
    name: str,
    text_name: str,
    extra_files: Mapping[str, str | bytes] | None,
    half: bool,
) -> None:
    """Write the folder, whole or not at all, with a card that says what was done to what.

    What was stored as fp16 (`half`) stays so.
    """
    run, model = result.healing, compressed.model
    card = "" if run is None else (run.model / "README.md").read_text(encoding="utf-8")

    def tell(weight_bytes: int) -> str:
        old_bytes = result.weight_bytes[0]
        rows = {
            "original": name,
            "method": f"{result.method}: {result.done}",
            "parameters": " → ".join(f"{count:,}" for count in result.parameters),
            "weights": f"{format_bytes(old_bytes)} → {format_bytes(weight_bytes)} ({weight_bytes / old_bytes:.0%})",
            "agreement": f"{result.agreement:.3f}: correlation with the original's cosines, on texts of {text_name}",
        }
        lines = ["## Compression", "", "| | |", "|-|-|", *(f"| {name} | {value} |" for name, value in rows.items())]
        lines += ["", _INT8_NOTE] if compressed.int8 else []
        healed = card[card.index(_DISTILLATION) :] if _DISTILLATION in card else ""
        return "\n".join([*lines, "", healed])

    write_folder(
        result.folder,
        model.config,
        model.head,
        to_arrays(model.state_dict()),
        tokenizer,
        about=tell,
        extra_files=extra_files,
        half=half and not compressed.int8,
        int8=compressed.int8,
    )
