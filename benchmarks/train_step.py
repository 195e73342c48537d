"""One pretraining step (loss, gradient, AdamW): litebert and transformers, interleaved, each in a process of its own.

All start from the same weights, and their losses are compared before anything is timed. Text is real: the file given
with --text, else the documentation that comes with Python; one row in ten is short, as in pretraining. transformers
runs as its users run it (SDPA attention, fused AdamW), and once with all that can be done for it from outside:
torch.compile and the memory setting that litebert uses. Where bf16 products are faster than fp32 ones, both also run
under bf16's autocast.

    python benchmarks/train_step.py --shapes base:8x128 mini:32x128 --rounds 7
"""

import argparse
import gzip
import json
import pydoc_data.topics
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers, trainers

from harness import Contestant, gemm_step, interleave, machine, median_ratio, record, serve_steps
from litebert.batch import NO_LABEL, Batch
from litebert.config import ModelConfig
from litebert.model.cost import MASKED_SHARE, training_flops, training_memory
from litebert.model.lean import kernels
from litebert.model.model import Model
from litebert.presets import PRESETS
from litebert.runtime import keep_freed_memory, probe_bfloat16
from litebert.training.objectives import pretraining_loss

Step = Callable[[], float]


def read_text(path: Path | None, limit: int = 4_000_000) -> list[str]:
    """Paragraphs of real text."""
    if path is None:
        return [text for topic in pydoc_data.topics.topics.values() for text in topic.split("\n\n")]
    paragraphs: list[str] = []
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            paragraphs += row["paras"] if "paras" in row else row["text"].split("\n\n")
            if sum(map(len, paragraphs)) > limit:
                break
    return paragraphs


def token_stream(paragraphs: list[str], vocab_size: int) -> torch.Tensor:
    """The text as ids of a WordPiece vocabulary made from it."""
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(paragraphs, trainer)
    return torch.tensor([i for row in tokenizer.encode_batch(paragraphs) for i in row.ids])


def make_batches(stream: torch.Tensor, batch: int, length: int, count: int) -> list[Batch]:
    """Rows `[CLS] first [SEP] second [SEP]` of consecutive text; one in ten is short; 15 % of tokens are masked."""
    generator = torch.Generator().manual_seed(0)
    num_masked = round(length * MASKED_SHARE)
    batches = []
    for _ in range(count):
        ids = torch.zeros(batch, length, dtype=torch.long)
        mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
        positions = torch.full((batch, num_masked), -1)
        for row in range(batch):
            short = torch.rand(1, generator=generator).item() < 0.1
            size = int(torch.randint(length // 4, length, (1,), generator=generator)) if short else length
            start = int(torch.randint(len(stream) - length, (1,), generator=generator))
            ids[row, :size] = stream[start : start + size]
            ids[row, 0], ids[row, size // 2], ids[row, size - 1] = 2, 3, 3
            mask[row, :size] = 1
            types[row, size // 2 + 1 : size] = 1
            masked = max(1, round(size * MASKED_SHARE))
            positions[row, :masked] = torch.randperm(size, generator=generator)[:masked].sort().values
        labels = ids.gather(1, positions.clamp(min=0)).masked_fill(positions < 0, NO_LABEL)
        rows, columns = (positions >= 0).nonzero(as_tuple=True)
        ids[rows, positions[rows, columns]] = 4
        sentences = torch.randint(2, (batch,), generator=generator)
        batches.append(Batch(ids, mask, types, None, None, positions, labels, sentences))
    return batches


def our_step(
    folder: Path, batches: list[Batch], compiled: bool = True, recompute: bool = False, half: bool = False
) -> Step:
    keep_freed_memory()
    kernels.use_compiled(compiled)
    model = Model.from_pretrained(folder).train()
    model.encoder.recompute = recompute
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    counter = iter(range(10**9))

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = pretraining_loss(model, batches[next(counter) % len(batches)])
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def their_step(folder: Path, batches: list[Batch], tuned: bool = False, half: bool = False) -> Step:
    import transformers

    if tuned:
        keep_freed_memory()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model: Any = transformers.AlbertForPreTraining.from_pretrained(folder).train()
    run = torch.compile(model) if tuned else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    labels = [batch.token_labels() for batch in batches]
    counter = iter(range(10**9))

    def step() -> float:
        index = next(counter) % len(batches)
        batch = batches[index]
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = run(
                input_ids=batch.input_ids,
                attention_mask=batch.attention_mask,
                token_type_ids=batch.token_type_ids,
                labels=labels[index],
                sentence_order_label=batch.sentence_labels,
            ).loss
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def product_step(config: ModelConfig, batch: int, length: int) -> Step:
    """The limit: the largest matrix product of the step, alone."""
    return gemm_step(batch * length, config.hidden_size, config.intermediate_size)


CONTESTANTS: dict[str, Callable[[Path, list[Batch]], Step]] = {
    "transformers": their_step,
    "transformers, tuned": lambda folder, batches: their_step(folder, batches, tuned=True),
    "litebert": our_step,
    "litebert, uncompiled": lambda folder, batches: our_step(folder, batches, compiled=False),
    "litebert, recomputing": lambda folder, batches: our_step(folder, batches, recompute=True),
    "transformers, bf16": lambda folder, batches: their_step(folder, batches, half=True),
    "litebert, bf16": lambda folder, batches: our_step(folder, batches, half=True),
}
BF16 = ", bf16"
GEMM = "bare GEMM"
STREAM = "stream.npy"


def parse_shape(shape: str) -> tuple[ModelConfig, int, int]:
    """`base:8x128` → the configuration (no dropout anywhere), batch 8, length 128."""
    preset, _, size = shape.partition(":")
    batch, length = map(int, size.split("x"))
    return PRESETS[f"albert-{preset}"].config.updated(classifier_dropout=0.0), batch, length


def prepare(shape: str, text: Path | None, folder: Path) -> None:
    """Write the weights that all start from, and the token stream that all read."""
    config = parse_shape(shape)[0]
    torch.manual_seed(0)
    Model(config, "pretraining").save_pretrained(folder)
    np.save(folder / STREAM, token_stream(read_text(text), config.vocab_size).numpy())


def run_contestant(name: str, shape: str, folder: Path) -> None:
    """What a child process does."""
    import transformers  # noqa: F401  # all of them carry it, so that it counts for none

    config, batch, length = parse_shape(shape)
    if name == GEMM:
        serve_steps(lambda: product_step(config, batch, length))
        return
    batches = make_batches(torch.from_numpy(np.load(folder / STREAM)), batch, length, count=4)
    serve_steps(lambda: CONTESTANTS[name](folder, batches))


def measure(shape: str, text: Path | None, rounds: int) -> dict[str, Any]:
    config, batch, length = parse_shape(shape)
    with tempfile.TemporaryDirectory() as folder:
        prepare(shape, text, Path(folder))
        common = [sys.executable, __file__, "--shapes", shape, "--folder", folder]
        chosen = [name for name in CONTESTANTS if not name.endswith(BF16) or probe_bfloat16()]
        running = {name: Contestant([*common, "--contestant", name]) for name in (*chosen, GEMM)}
        losses = {name: float(running[name].first["value"]) for name in chosen}
        exact = [loss for name, loss in losses.items() if not name.endswith(BF16)]
        spread = max(exact) - min(exact)
        assert spread < 1e-3, f"the losses differ: {losses}"
        assert max(abs(loss - exact[0]) for loss in losses.values()) < 0.05, f"the losses differ: {losses}"
        times = interleave({name: contestant.step for name, contestant in running.items()}, rounds)
        operations = float(running[GEMM].first["value"])
        peaks = {name: contestant.finish() for name, contestant in running.items()}
    rate = operations / statistics.median(times[GEMM])
    result: dict[str, Any] = {"shape": shape, "gemm_gflops": rate / 1e9, "loss_spread": spread, "contestants": {}}
    for name in chosen:
        seconds = statistics.median(times[name])
        ours = name.startswith("litebert")
        run, textbook = (batch * length * training_flops(config, length, gathered) for gathered in (ours, False))
        result["contestants"][name] = {
            "seconds": seconds,
            "first_loss": losses[name],
            "tokens_per_second": batch * length / seconds,
            "speed_against_transformers": median_ratio(times["transformers"], times[name]),
            "share_of_gemm_operations_run": run / seconds / rate,
            "share_of_gemm_textbook_operations": textbook / seconds / rate,
            "peak_bytes": peaks[name],
            "times": times[name],
        }
    result["planned_bytes"] = training_memory(config, batch, length).process
    result["planned_bytes_recomputing"] = training_memory(config, batch, length, recompute=True).process
    return result


def render(results: list[dict[str, Any]]) -> str:
    lines = [
        "`of GEMM`: the floating-point operations that a step ran, per second, as a share of what a bare fp32 matrix",
        "product of the step's largest shape reaches in the same rounds. `textbook`: the same with the operations of",
        "the textbook step, which runs the last layer for every position. Memory is the peak above the bare libraries.",
        "",
        "`first loss` is that of the first step, from the same weights on the same rows.",
        "",
        "| shape | step | tokens/s | × transformers (spread) | of GEMM | textbook | memory | × theirs | first loss |",
        "|-|-|-|-|-|-|-|-|-|",
    ]
    for result in results:
        base = result["contestants"]["transformers"]["peak_bytes"]
        for name, row in result["contestants"].items():
            speed = row["speed_against_transformers"]
            lines.append(
                f"| {result['shape']} | {name} | {row['tokens_per_second']:,.0f} "
                f"| {speed['ratio']:.2f} ({speed['low']:.2f}–{speed['high']:.2f}) "
                f"| {row['share_of_gemm_operations_run']:.0%} | {row['share_of_gemm_textbook_operations']:.0%} "
                f"| {row['peak_bytes'] / 1e6:,.0f} MB | {row['peak_bytes'] / base:.2f} | {row['first_loss']:.4f} |"
            )
        lines.append(f"| {result['shape']} | {GEMM} | {result['gemm_gflops']:.0f} GFLOP/s | | | | | | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", default=["base:8x128", "base:4x512", "mini:32x128"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--text", type=Path, help="JSON lines with 'text' or 'paras', may be .gz")
    parser.add_argument("--contestant", choices=[*CONTESTANTS, GEMM], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        run_contestant(options.contestant, options.shapes[0], options.folder)
        return
    results = []
    for shape in options.shapes:
        results.append(measure(shape, options.text, options.rounds))
        print(render(results[-1:]), flush=True)
    facts = machine() | {"text": options.text.name if options.text else "pydoc topics"}
    facts["command"] = facts["command"].replace(str(options.text), facts["text"])
    path = record(
        "train-step", "A pretraining step against transformers", render(results), {"machine": facts, "results": results}
    )
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
