"""A fine-tuned classifier, from text to label: transformers' pipeline; litebert as it is, in 8 bits, and with exits.

The same weights and the same texts for all, in rounds that take turns in one process; then the accuracy of each on all
examples, how often each agrees with the pipeline, and one short text alone. transformers runs twice, as its users call
it (batches of 32 texts as they come) and with texts sorted by length. `--elastic` names a model that was fine-tuned
with --elastic, for early answers; it is judged beside its own labels too.

    litebert finetune sst-2 --data glue/SST-2 --out sst-2-run
    litebert finetune sst-2 --data glue/SST-2 --model sst-2-run --elastic --out elastic-run
    python benchmarks/classifiers.py --model sst-2-run --elastic elastic-run --data glue/SST-2
"""

import argparse
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import litebert
from harness import interleave, machine, record
from inference import INSTRUCTIONS, time_call
from litebert.hub import resolve
from litebert.inference.optimize import OptimizeResult, find_fastest
from litebert.runtime import advertises, num_cores, prepare_process
from litebert.tasks.readers.known import read_task_examples

PEER, SORTED, OURS = "transformers, pipeline", "transformers, pipeline, texts sorted by length", "litebert"
Classify = Callable[[list[str]], list[str]]


def open_peer(folder: Path, limit: int) -> dict[str, Classify]:
    """transformers' pipeline in batches of 32."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    call = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu", batch_size=32)

    def classify(texts: list[str]) -> list[str]:
        with torch.inference_mode():
            return [one["label"] for one in call(texts, truncation=True, max_length=limit)]

    def classify_sorted(texts: list[str]) -> list[str]:
        order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        found = classify([texts[number] for number in order])
        return [found[place] for place in np.argsort(order)]

    return {PEER: classify, SORTED: classify_sorted}


def open_ours(name: str, folder: Path, found: OptimizeResult) -> dict[str, Classify]:
    """litebert as the model is, in 8 bits, and as `litebert optimize` has chosen."""
    plain = litebert.load(folder, optimized=False)
    member = plain.members[0]

    def run_with(**how: Any) -> Classify:
        changed = replace(plain, members=(replace(member, engine=member.engine.configured(**how)),))
        return lambda texts: [one.label for one in changed.classify(texts)]

    ways = {name: run_with(), f"{name}, int8": run_with(int8=member.engine.int8_maps)}
    best = found.chosen
    if best.exits is not None:
        ways[f"{name}, {best.name} ({best.passes:.1f} passes)"] = run_with(int8=best.int8, exits=best.exits)
    return ways


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a run of `litebert finetune`")
    parser.add_argument("--elastic", help="a run with --elastic")
    parser.add_argument("--data", type=Path, required=True, help="examples with labels")
    parser.add_argument("--max-drop", type=float, default=0.5, help="points that early answers may lose")
    parser.add_argument("--count", type=int, default=256, help="texts of a round")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    prepare_process()
    torch.set_num_threads(num_cores())
    folder = resolve(options.model)
    ours = litebert.load(folder, optimized=False)
    examples: list[Any] = read_task_examples(ours.task, options.data).examples
    # Early answers are chosen on one half of the examples and measured on the other.
    tuning, scored = examples[::2], examples[1::2]
    found = find_fastest(ours, tuning, options.max_drop)
    contestants = open_peer(folder, ours.members[0].max_length) | open_ours(OURS, folder, found)
    curve = found.variants
    if options.elastic:
        elastic = resolve(options.elastic)
        found = find_fastest(litebert.load(elastic, optimized=False), tuning, options.max_drop)
        contestants |= open_ours("litebert, elastic", elastic, found)
        curve = found.variants
    texts = [one.text for one in scored]
    answers = {name: classify(texts) for name, classify in contestants.items()}
    timed = texts[: options.count]
    seconds = interleave(
        {name: time_call(lambda one=one: one(timed)) for name, one in contestants.items()}, options.rounds, 1
    )
    short = interleave({name: time_call(lambda one=one: one(timed[:1])) for name, one in contestants.items()}, 60, 5)
    results = {
        name: {
            "texts_per_second": len(timed) / statistics.median(seconds[name]),
            "beside_pipeline": statistics.median(seconds[PEER]) / statistics.median(seconds[name]),
            "accuracy": float(np.mean([a == one.label for a, one in zip(answers[name], scored, strict=True)])),
            "agreement": float(np.mean([a == b for a, b in zip(answers[name], answers[PEER], strict=True)])),
            "short_ms": [1000 * float(np.percentile(short[name], share)) for share in (50, 99)],
        }
        for name in contestants
    }
    lines = [
        "| | texts/s | beside the pipeline | accuracy | as the pipeline | one text, median and 99th percentile |",
        "|-|-:|-:|-:|-:|-:|",
    ]
    for name, one in results.items():
        lines.append(
            f"| {name} | {one['texts_per_second']:,.0f} | {one['beside_pipeline']:.1f} × | {one['accuracy']:.1%} | "
            f"{one['agreement']:.1%} | {one['short_ms'][0]:.1f} ms, {one['short_ms'][1]:.1f} ms |"
        )
    tokens = statistics.mean(len(text.split()) for text in timed)
    instructions = ", ".join(name for name in INSTRUCTIONS if advertises(name)) or "unknown"
    lines += [
        "",
        f"{len(timed)} texts a round, {tokens:.0f} words each; accuracy on {len(scored)} examples; when to leave was "
        f"chosen on {len(tuning)} others (at most {options.max_drop:g} points lost). CPU with {instructions}.",
        "",
        "How early answers may leave, on those others:",
        "",
        "| | metric × 100 | passes |",
        "|-|-:|-:|",
        *(f"| {one.name} | {100 * one.metric:.1f} | {one.passes:.2f} |" for one in curve),
    ]
    print("\n".join(lines))
    about = {"machine": machine(), "results": results, "curve": [[one.name, one.metric, one.passes] for one in curve]}
    print(record("classifiers", "A fine-tuned classifier, from text to label", "\n".join(lines), about))


if __name__ == "__main__":
    main()
