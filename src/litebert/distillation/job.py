"""`distill`: a student learns from a teacher, on text without labels, as a job for the training loop.

For every text the student shall say what the teacher says: the same states, the same vector (the mean of the last
states), the same similarities between texts. Steps draw how many passes the student runs, so that one set of weights
serves at several depths; the first parts of its vectors are taught alone as well.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from litebert.batch import Batch
from litebert.corpus.corpus import HELD_OUT, TRAIN, Corpus, hash_tokenizer
from litebert.corpus.stream import BatchStream
from litebert.distillation.config import AS_STUDENT, DistillConfig
from litebert.distillation.pairs import pair_up
from litebert.distillation.start import begin_from_teacher, choose_layers, translate_words
from litebert.errors import RequestError
from litebert.folders import MANIFEST, hash_file, model_name
from litebert.hub import resolve
from litebert.model.cost import count_encoder_parameters, forward_flops
from litebert.model.heads import SentenceEmbeddingHead
from litebert.model.hf.checkpoint import hash_weights, write_folder
from litebert.model.model import Model, ModelOutput, to_arrays
from litebert.model.sharing import layer_plan
from litebert.pretraining.job import read_steps, stage_stream
from litebert.text.tokenizer import Tokenizer
from litebert.training.distributed import World
from litebert.training.job import OnMessage, OnStep, RunResult
from litebert.training.loop import mix_seed
from litebert.training.run import train
from litebert.training.state import TrainingState

__all__ = ["Distillation", "RatedPairs", "distill"]

_ROWS = 32  # of held-out text that run together
_SAMPLE_ROWS = 512  # of text, to which the start is fitted


@dataclass(frozen=True)
class RatedPairs:
    """Pairs of texts and how alike people found them, such as STS-B: the student's vectors are measured by them."""

    first: list[str]
    second: list[str]
    scores: list[float]
    source: str = ""
    """Where they come from, for the record."""


def distill(
    corpus: Corpus,
    out: Path,
    config: DistillConfig,
    *,
    rated: RatedPairs | None = None,
    resume: bool = False,
    on_step: OnStep | None = None,
    on_message: OnMessage = lambda message: None,
    clock: Callable[[], float] = time.monotonic,
) -> RunResult:
    """Train a student by its teacher on the text of a corpus, into a run folder; with `resume`, go on with it.

    The corpus has the tokenizer of the student. Under torchrun every process calls this alike.
    """
    if config.model.vocab_size < corpus.tokenizer.vocab_size:
        raise RequestError(
            f"the student knows {config.model.vocab_size:,} pieces, the text is written in "
            f"{corpus.tokenizer.vocab_size:,}: they must be the same"
        )
    job = Distillation(corpus, config, rated)
    return train(job, config, out, resume=resume, on_step=on_step, on_message=on_message, clock=clock)


class Distillation:
    """The job of a distillation, for one of its processes."""

    kind = "distillation"
    metric = "agreement"
    keeps_best = False
    skip_loss_spikes = True
    step_seed = 0

    model: Model
    world: World

    def __init__(self, corpus: Corpus, config: DistillConfig, rated: RatedPairs | None = None) -> None:
        self.corpus, self.config, self.rated = corpus, config, rated
        depths = {depth for stage in range(len(config.train.stages)) for depth in config.depths_at(stage)}
        self.spares_weights = len(depths) > 1 and config.model.sharing != "all"
        self.folder = resolve(config.teacher)
        self.tokenizer = Tokenizer.from_pretrained(self.folder)
        self.same_tokenizer = hash_tokenizer(self.tokenizer) == corpus.manifest["tokenizer"]["sha256"]
        self.data = {"corpus": hash_file(corpus.folder / MANIFEST), "teacher": hash_weights(self.folder)}
        self.teacher_config = Model.read_config(self.folder)
        self.same_width = self.teacher_config.hidden_size == config.model.hidden_size
        has_states = self.same_tokenizer and self.same_width
        self.layers = self._match_layers() if has_states else []
        parts = {
            "states": has_states,
            "layers": bool(self.layers),
            "vectors": self.same_width,
            "similarities": True,
        }
        self.parts = [name for name, fits in parts.items() if fits and getattr(config.weights, name) > 0]
        if not self.parts:
            raise RequestError("nothing is taught: give some part of the loss a weight above 0")
        self.losses = tuple(f"{name}_loss" for name in self.parts)
        longest = max(stage.length or config.stream.length for stage in config.train.stages)
        if self.same_tokenizer and longest > self.teacher_config.max_positions:
            most = self.teacher_config.max_positions
            raise RequestError(
                f"rows of {longest} tokens are too long for a teacher that reads {most}: "
                f"add --set model.max_positions={most}"
            )

    def _match_layers(self) -> list[tuple[int, int]]:
        """Layers of the student that are copies of its teacher's: at full depth, each has a block of its own.

        The last ones are left out: their states are taught at every depth.
        """
        plan, count = layer_plan(self.config.model, max(self.config.depths)), len(layer_plan(self.teacher_config))
        if len(set(plan)) < len(plan) or not 1 < len(plan) <= count:
            return []
        return list(enumerate(choose_layers(self.config.model, len(plan), count)))[:-1]

    # --- before the first step ------------------------------------------------------------------------------------

    def describe_run(self) -> dict[str, Any]:
        """The teacher and the text."""
        return {
            "teacher": {
                "folder": str(self.folder),
                "name": self.config.teacher,
                "parameters": count_encoder_parameters(self.teacher_config),
                "sha256": self.data["teacher"],
                "model": self.teacher_config.model_dump(mode="json"),
            },
            "rated": None if self.rated is None else {"source": self.rated.source, "pairs": len(self.rated.scores)},
            "corpus": {
                "folder": str(self.corpus.folder),
                "train_tokens": self.corpus.num_tokens(TRAIN),
                "held_out_tokens": self.corpus.num_tokens(HELD_OUT),
                "sha256": self.data["corpus"],
            },
            "baselines": {},
        }

    def setup(self, world: World, config: DistillConfig, fresh: bool, on_message: OnMessage) -> None:
        """Open the teacher, make the student, and see what the teacher says about held-out text."""
        self.world, self.config = world, config
        teacher = Model.from_pretrained(self.folder, "sentence-embedding")
        self.model = self._make_student(teacher, on_message) if fresh else Model(config.model, config.head)
        if self.model.encoder.pooler is not None:
            self.model.encoder.pooler.requires_grad_(False)  # nobody looks at it here
        if fresh:
            sizes = [count_encoder_parameters(shape) for shape in (config.model, self.teacher_config)]
            on_message("a student of {:,} parameters learns from a teacher of {:,}".format(*sizes))
        self.teacher = teacher.to(world.device).eval().requires_grad_(False)
        stream = stage_stream(config.stream, config.train, 0)
        split = HELD_OUT if self.corpus.num_tokens(HELD_OUT) else TRAIN
        if split == TRAIN:
            on_message("the text has too few documents to hold one out: agreement is measured on what is learnt from")
        rows = BatchStream(self.corpus, stream, split).epoch(_ROWS)
        self.held_out = list(islice(rows, max(1, config.held_out_rows // _ROWS)))
        targets = [self._teach(batch.to(world.device)) for batch in self.held_out]
        self.held_out_vectors = torch.cat([vectors for _, vectors in targets]).cpu()
        # Of the states after each of the teacher's layers: distances are measured in such units.
        layers = zip(*(states for states, _ in targets), strict=True)
        self.variances = [float(torch.cat(states).var()) for states in layers]
        self.rated_batches = [] if self.rated is None else self._encode_rated(self.rated, self.corpus.tokenizer)
        self.teacher_sts = None if self.rated is None else self._rate_teacher(self.rated)

    def _make_student(self, teacher: Model, on_message: OnMessage) -> Model:
        """A student that begins with its teacher's weights, or with those of a folder; the same for the same seed."""
        config = self.config
        torch.manual_seed(config.train.seed)
        if config.begin_from is not None:
            model = Model.from_pretrained(config.begin_from, config.head)
            if model.config.updated(**AS_STUDENT) != config.model.updated(**AS_STUDENT):
                raise RequestError(f"{config.begin_from} has another shape than the student: leave out what changes it")
            student = Model(config.model, config.head)
            student.load_state_dict(model.state_dict())
            return student
        student = Model(config.model, config.head)
        stream = stage_stream(config.stream, config.train, 0).model_copy(update={"packing": False})
        sample = next(BatchStream(self.corpus, stream).epoch(_SAMPLE_ROWS)).input_ids
        words = None
        if not self.same_tokenizer:
            words = translate_words(teacher, self.tokenizer, self.corpus.tokenizer)
            on_message("the student has word pieces of its own: vectors are taught, states are not")
        if not self.same_width:
            on_message("the student has another width than its teacher: similarities alone are taught")
        begin_from_teacher(student, teacher, sample, words)
        return student

    @torch.no_grad()
    def _rate_teacher(self, rated: RatedPairs) -> float:
        """How the teacher's own vectors do on rated pairs."""
        vectors, order = [], []
        for batch, numbers in self._encode_rated(rated, self.tokenizer):
            output: ModelOutput = self.teacher(**batch.to(self.world.device).inputs())
            assert output.embedding is not None
            vectors.append(output.embedding.float().cpu())
            order += numbers
        return _measure_rated(torch.cat(vectors), order, rated.scores)

    def _encode_rated(self, rated: RatedPairs, tokenizer: Tokenizer) -> list[tuple[Batch, list[int]]]:
        """The texts of rated pairs in batches of like length, with their numbers: first texts, then second ones."""
        limit = self.config.model.embedding_max_length or self.config.model.max_positions
        limit = min(limit, self.teacher_config.max_positions)  # both read the same part of a long text
        encoded = tokenizer.encode([*rated.first, *rated.second], max_length=limit)
        lengths = encoded.attention_mask.sum(1)
        order = np.argsort(lengths, kind="stable")
        batches = []
        for begin in range(0, len(order), 4 * _ROWS):
            chosen = order[begin : begin + 4 * _ROWS]
            width = int(lengths[chosen].max())
            ids, mask = (
                torch.from_numpy(array[chosen, :width].astype(np.int64))
                for array in (encoded.input_ids, encoded.attention_mask)
            )
            batches.append((Batch(ids, mask), chosen.tolist()))
        return batches

    # --- a step ---------------------------------------------------------------------------------------------------

    def steps(self, stage: int, cursor: list[int] | None) -> Iterator[tuple[list[Batch], list[int]]]:
        """This process's rows of each step, as micro-batches."""
        stream = stage_stream(self.config.stream, self.config.train, stage)
        steps = read_steps(self.corpus, stream, self.config.train, stage, cursor, self.world)
        if not self.config.pairs or not self.same_tokenizer:
            return steps
        return ((self._pair_up(batches, after, stream.length), after) for batches, after in steps)

    def _pair_up(self, batches: list[Batch], cursor: list[int], length: int) -> list[Batch]:
        """In some of the steps, rows of two texts in the place of single ones; the same at the same cursor."""
        generator = torch.Generator().manual_seed(mix_seed(self.config.train.seed, 1, *cursor))
        if float(torch.rand((), generator=generator)) >= self.config.pairs:  # the same for all processes
            return batches
        generator.manual_seed(mix_seed(self.config.train.seed, 2 + self.world.rank, *cursor))
        tokenizer, most = self.corpus.tokenizer, min(2 * length, self.config.model.max_positions)
        ids = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
        return [pair_up(batch, *ids, min(most, self.teacher_config.max_positions), generator) for batch in batches]

    def enter(self, stage: int) -> None:
        """Nothing changes."""

    def count(self, batch: Batch) -> list[int]:
        """Tokens for the states, texts for the rest."""
        assert batch.sequence_starts is not None
        num_texts = int((batch.sequence_starts >= 0).sum())
        return [batch.num_tokens if part in ("states", "layers") else num_texts for part in self.parts]

    def measure(self, model: nn.Module, batch: Batch, totals: Sequence[float], stage: int) -> list[Tensor]:
        """How far the student is from its teacher, at a depth that is drawn."""
        depth = self._draw_depth(stage)
        is_deepest = depth == max(self.config.depths)
        wanted_states, wanted = self._teach(batch)
        output: ModelOutput = model(**_inputs(batch), depth=depth, output_hidden_states=is_deepest)
        assert output.last_hidden_state is not None
        vectors = _vectors(output, batch)
        weights, total = self.config.weights, dict(zip(self.parts, totals, strict=True))
        losses: dict[str, Tensor] = {}
        if "states" in total:
            distance = self._distance(output.last_hidden_state, wanted_states, -1, batch)
            losses["states"] = weights.states * distance / max(total["states"], 1)
        if "layers" in total:
            distance = vectors.new_zeros(())
            if is_deepest:
                assert output.hidden_states is not None
                pairs = [(output.hidden_states[mine], layer) for mine, layer in self.layers]
                distance = sum(
                    (self._distance(states, wanted_states, layer, batch) for states, layer in pairs), distance
                ) / len(pairs)
            losses["layers"] = weights.layers * distance / max(total["layers"], 1)
        if "vectors" in total:
            apart = (1 - F.cosine_similarity(vectors, wanted)).sum()
            losses["vectors"] = weights.vectors * apart / max(total["vectors"], 1)
        if "similarities" in total:
            apart = self._compare_similarities(vectors, wanted) * len(vectors)
            losses["similarities"] = weights.similarities * apart / max(total["similarities"], 1)
        return [losses[part] for part in self.parts]

    def _draw_depth(self, stage: int) -> int:
        """How many passes this step runs: as many as there are, or any number that is taught."""
        depths = self.config.depths_at(stage)
        share, seed = divmod(self.step_seed, 1000)[1] / 1000, self.step_seed // 1000
        return max(depths) if share < self.config.full_depth else depths[seed % len(depths)]

    def _distance(self, states: Tensor, wanted: list[Tensor], layer: int, batch: Batch) -> Tensor:
        """Squared distance from the teacher's states after a layer, in units of their variance, summed over tokens."""
        assert batch.sequence_ids is not None
        apart = states[batch.sequence_ids > 0].float() - wanted[layer]
        return apart.square().sum() / (apart.shape[1] * self.variances[layer])

    def _compare_similarities(self, vectors: Tensor, wanted: Tensor) -> Tensor:
        """Mean squared difference of the cosines between texts: of whole vectors, and of their first parts."""
        target = _cosines(wanted)
        sizes = [vectors.shape[1], *self.config.dimensions]
        return torch.stack([(_cosines(vectors[:, :size]) - target).square().mean() for size in sizes]).mean()

    @torch.no_grad()
    def _teach(self, batch: Batch) -> tuple[list[Tensor], Tensor]:
        """What the teacher says: the states of tokens after each layer (tokens, H), if it reads the same; of texts."""
        if not self.same_tokenizer:
            return [], self._teach_texts(batch)
        output: ModelOutput = self.teacher(**_inputs(batch), output_hidden_states=True)
        assert output.hidden_states is not None
        assert batch.sequence_ids is not None
        is_token = batch.sequence_ids > 0
        return [states[is_token].float() for states in output.hidden_states], _vectors(output, batch)

    def _teach_texts(self, batch: Batch) -> Tensor:
        """The vectors of a teacher that cuts text into other pieces: it reads the text that the ids stand for."""
        assert batch.sequence_ids is not None
        texts = []
        for ids, numbers in zip(batch.input_ids.tolist(), batch.sequence_ids.tolist(), strict=True):
            for number in range(1, max(numbers) + 1):
                texts.append(
                    self.corpus.tokenizer.decode(
                        [token for token, of in zip(ids, numbers, strict=True) if of == number]
                    )
                )
        encoded = self.tokenizer.encode(texts, max_length=self.teacher_config.max_positions)
        ids, mask = (
            torch.from_numpy(array.astype(np.int64)).to(self.world.device)
            for array in (encoded.input_ids, encoded.attention_mask)
        )
        output: ModelOutput = self.teacher(ids, mask)
        assert output.embedding is not None
        return output.embedding.float()

    def operations(self, batch: Batch, stage: int) -> float:
        """Operations of a step: the student forward and twice that backward, at the mean of its depths; the teacher."""
        length = batch.input_ids.shape[1]
        depths, share = self.config.depths_at(stage), self.config.full_depth
        drawn = sum(forward_flops(self.config.model, length, depth=depth) for depth in depths) / len(depths)
        student = share * forward_flops(self.config.model, length, depth=max(depths)) + (1 - share) * drawn
        return (3 * student + forward_flops(self.teacher_config, length)) * batch.input_ids.numel()

    # --- now and then ---------------------------------------------------------------------------------------------

    def evaluate(self, stage: int) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """Agreement with the teacher on held-out text at every depth, and similarity as people see it.

        Agreement is the correlation of student's and teacher's cosines over all pairs of texts. Metrics without a depth
        in their name are those of the deepest.
        """
        self.model.eval()
        held_out = self._embed(self.held_out)
        rated = self._embed([batch for batch, _ in self.rated_batches])
        order = [number for _, numbers in self.rated_batches for number in numbers]
        found: dict[str, float] = {}
        for depth in sorted({*self.config.depths}, reverse=True):
            is_deepest = depth == max(self.config.depths)
            metrics = self._compare(held_out[depth], self.config.dimensions if is_deepest else ())
            if self.rated is not None:
                metrics["sts"] = _measure_rated(rated[depth], order, self.rated.scores)
            found |= metrics if is_deepest else {f"{name}_depth_{depth}": metrics[name] for name in metrics}
        if self.teacher_sts is not None:
            found["teacher_sts"] = self.teacher_sts
        return found, []

    @torch.no_grad()
    def _embed(self, batches: list[Batch]) -> dict[int, Tensor]:
        """The student's vectors of all texts at every depth; where that is possible, from one run."""
        found: dict[int, list[Tensor]] = {depth: [] for depth in self.config.depths}
        head = self.model.heads["embedding"]
        assert isinstance(head, SentenceEmbeddingHead)
        for batch in batches:
            batch = batch.to(self.world.device)
            for depth, states in self._run_depths(batch):
                if batch.sequence_starts is None:
                    vectors = head(states, batch.attention_mask)
                else:
                    assert batch.sequence_ids is not None
                    packed = head.embed_packed(states, batch.sequence_ids, batch.sequence_starts.shape[1])
                    vectors = packed[batch.sequence_starts >= 0]
                found[depth].append(vectors.float().cpu())
        return {depth: torch.cat(vectors) if vectors else torch.zeros(0) for depth, vectors in found.items()}

    def _run_depths(self, batch: Batch) -> Iterator[tuple[int, Tensor]]:
        """The last states at each depth."""
        depths, encoder = self.config.depths, self.model.encoder
        inputs = {name: tensor for name, tensor in _inputs(batch).items() if name != "sequence_starts"}
        shape = self.config.model
        if shape.sharing == "groups" and shape.num_groups > 1:  # a deeper run does not begin like a shallower one
            yield from ((depth, encoder(**inputs, depth=depth)) for depth in depths)
            return
        for number, states in enumerate(encoder.passes(**inputs, depth=max(depths)), start=1):
            if number % shape.num_inner_layers == 0 and number // shape.num_inner_layers in depths:
                yield number // shape.num_inner_layers, states

    def _compare(self, vectors: Tensor, dimensions: Sequence[int]) -> dict[str, float]:
        """Agreement with the teacher on held-out text, of whole vectors and of their first parts."""
        wanted = self.held_out_vectors
        metrics = {"agreement": _correlate_pairs(vectors, wanted)}
        if self.same_width:
            metrics["cosine"] = float(F.cosine_similarity(vectors, wanted).mean())
        return metrics | {f"agreement_first_{n}": _correlate_pairs(vectors[:, :n], wanted) for n in dimensions}

    def describe_stage(self, stage: int) -> dict[str, Any]:
        """The largest depth and the length of a stage."""
        stream = stage_stream(self.config.stream, self.config.train, stage)
        return {"depth": max(self.config.depths_at(stage)), "length": stream.length}

    # --- the model ------------------------------------------------------------------------------------------------

    def finish(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights stay as they are."""
        return tensors

    def write_model(self, folder: Path, tensors: dict[str, Tensor], state: TrainingState) -> None:
        """Save a model folder with the student's tokenizer, and a card that says what it learnt from whom."""
        about = self._describe_training(state)
        arrays, tokenizer = to_arrays(tensors), self.corpus.tokenizer
        shape = self.config.model.updated(embedding_dimensions=self.config.dimensions)
        write_folder(folder, shape, self.config.head, arrays, tokenizer, about=about)

    def _describe_training(self, state: TrainingState) -> str:
        config, optim = self.config, self.config.train.optim
        teacher, student = (count_encoder_parameters(shape) for shape in (self.teacher_config, config.model))
        text = self.corpus.num_tokens(TRAIN)
        rows = {
            "teacher": f"{model_name(config.teacher)}, {teacher:,} parameters ({teacher / student:.1f} × as many)",
            "text": f"{text:,} tokens without labels, read {state.tokens / max(text, 1):.1f} times",
            "steps": f"{state.step:,}, {state.tokens:,} tokens in {state.seconds / 60:.1f} minutes",
            "taught": ", ".join(self.parts),
            "depths": ", ".join(map(str, config.depths)),
            "optimiser": f"{optim.optimizer}, learning rate {optim.lr:g}, weight decay {optim.weight_decay:g}",
        }
        lines = ["## Distillation", "", "| | |", "|-|-|", *(f"| {name} | {value} |" for name, value in rows.items())]
        return "\n".join([*lines, *self._tabulate_depths(state.metrics), *self._tabulate_parts(state.metrics)]) + "\n"

    def _tabulate_depths(self, metrics: dict[str, float]) -> list[str]:
        """What each depth costs and how good it is."""
        if "agreement" not in metrics:
            return []
        names = {"agreement": "agreement with the teacher", "sts": "similarity of rated pairs (Pearson)"}
        shown = [name for name in names if name in metrics]
        full = forward_flops(self.teacher_config, self.config.stream.length)
        lines = ["", "## Depths", "", "One set of weights serves at every depth: `embed(texts, depth=2)`.", ""]
        lines += [f"| passes | operations of the teacher's | {' | '.join(names[name] for name in shown)} |"]
        lines += ["|-|-|" + "-|" * len(shown)]
        for depth in sorted(self.config.depths):
            suffix = "" if depth == max(self.config.depths) else f"_depth_{depth}"
            cost = forward_flops(self.config.model, self.config.stream.length, depth=depth) / full
            values = [f"{metrics.get(name + suffix, math.nan):.3f}" for name in shown]
            lines.append(f"| {depth} | {cost:.0%} | {' | '.join(values)} |")
        if "teacher_sts" in metrics:
            lines += [f"| the teacher | 100% |{' 1.000 |' * (len(shown) - 1)} {metrics['teacher_sts']:.3f} |"]
        unseen = " that training never saw" if self.corpus.num_tokens(HELD_OUT) else ", which are of the training text"
        return [*lines, "", f"Agreement: correlation of the cosines between texts{unseen}."]

    def _tabulate_parts(self, metrics: dict[str, float]) -> list[str]:
        """How good the first parts of a vector are."""
        sizes = [size for size in self.config.dimensions if f"agreement_first_{size}" in metrics]
        if not sizes:
            return []
        lines = [
            "",
            "## Parts of a vector",
            "",
            "The first numbers of a vector work alone: `embed(texts, dimensions=64)`.",
        ]
        lines += ["", "| numbers | agreement with the teacher |", "|-|-|"]
        lines += [f"| {size} | {metrics[f'agreement_first_{size}']:.3f} |" for size in sorted(sizes)]
        return [*lines, f"| {self.config.model.hidden_size} | {metrics['agreement']:.3f} |"]


def _inputs(batch: Batch) -> dict[str, Tensor]:
    """What a model takes of a packed batch in which nothing is masked."""
    return {name: tensor for name, tensor in batch.inputs().items() if name != "masked_positions"}


def _vectors(output: ModelOutput, batch: Batch) -> Tensor:
    """The vectors of the texts in packed rows, one after the other: (texts, H)."""
    assert output.embedding is not None
    assert batch.sequence_starts is not None
    return output.embedding[(batch.sequence_starts >= 0).to(output.embedding.device)].float()


def _cosines(vectors: Tensor) -> Tensor:
    """(texts, H) → (texts, texts), with all digits."""
    with torch.autocast(vectors.device.type, enabled=False):
        normed = F.normalize(vectors.float(), dim=-1)
        return normed @ normed.T


def _measure_rated(vectors: Tensor, order: list[int], scores: list[float]) -> float:
    """Correlation of cosines with what people said; `order` says which text, first ones before second ones."""
    sorted_vectors = torch.empty_like(vectors)
    sorted_vectors[order] = vectors
    first, second = sorted_vectors.chunk(2)
    return _correlate(F.cosine_similarity(first, second), torch.tensor(scores))


def _correlate_pairs(vectors: Tensor, wanted: Tensor) -> float:
    """Correlation of two sets of cosines over all pairs of different texts."""
    rows, columns = torch.triu_indices(len(vectors), len(vectors), offset=1)
    return _correlate(_cosines(vectors)[rows, columns], _cosines(wanted)[rows, columns])


def _correlate(first: Tensor, second: Tensor) -> float:
    """Pearson correlation; 0 where one of them does not vary."""
    first, second = (values.double() - values.double().mean() for values in (first, second))
    scale = float(first.norm() * second.norm())
    return float((first * second).sum()) / scale if scale > 0 else 0.0
