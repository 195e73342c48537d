"""How good is an encoder after so many minutes? litebert's two recipes and transformers, on the same text.

All train the same architecture (albert-mini) on the same corpus and tokenizer, each in a process of its own, in turns
of half a minute, so that a busy moment of the machine hits all alike; only a contestant's own turns count as its time.
Each saves its weights every minute. In the end all of them are scored by the same code on the same held-out documents:
masked words with the paper's n-gram masks (which ours train with), masked tokens by transformers' collator (which it
trains with), and sentence order. A schedule is made for its time, so our recipe also runs once with a third of it.

transformers runs eagerly, as its users run it: AlbertForPreTraining, AdamW (warm-up, linear decay, clipping at 1),
DataCollatorForLanguageModeling on batches of 32 padded pairs of segments with a sentence-order label. Our recipe was
chosen by trials on such text, its settings were not; --rates tries several learning rates for it.

    python benchmarks/time_to_quality.py --minutes 20 --text wikipedia.jsonl.gz books.jsonl.gz
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from harness import RESULTS, Turns, machine, name_contestants, record, take_turns
from litebert.batch import NO_LABEL, Batch
from litebert.corpus.corpus import Corpus
from litebert.corpus.stream import BatchStream, StreamConfig
from litebert.model.model import Model
from litebert.presets import PRESETS
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.evaluation import evaluate_held_out, held_out_batches
from litebert.pretraining.guessers import Guessers
from litebert.pretraining.job import pretrain
from litebert.pretraining.recipes import budget_run, paper_run
from litebert.runtime import prepare_process
from litebert.training.optim import OptimConfig, learning_rate

LENGTH = 128
PAPER_BATCH = 256
HELD_OUT_ROWS = 512
BUDGET, PAPER, PEER = "litebert, budget", "litebert, paper", "transformers"
THIRD = "litebert, budget, a third of the time"
COLOURS = {BUDGET: "#0b6e4f", THIRD: "#56a3a6", PAPER: "#8a6fb0", PEER: "#c1666b"}


def make_config(name: str, corpus: Corpus, seconds: float) -> PretrainConfig:
    """One of our two recipes, for this time."""
    model = PRESETS["albert-mini"].config.updated(vocab_size=corpus.tokenizer.vocab_size)
    if name != PAPER:
        config = budget_run(model, seconds, length=LENGTH)
    else:
        config = paper_run(model, batch_size=PAPER_BATCH, length=LENGTH)
        compiled = budget_run(model, seconds).train.compiled  # the same engine for both
        train = config.train.model_copy(update={"steps": None, "seconds": seconds, "compiled": compiled})
        config = config.model_copy(update={"train": train})
    train = config.train.model_copy(update={"save_seconds": 60.0, "keep": 1000, "precision": "fp32"})
    return config.model_copy(update={"train": train})


def run_ours(name: str, corpus: Corpus, out: Path, seconds: float) -> None:
    """Pretrain as `litebert pretrain` does; its checkpoints are what is scored."""
    turns = Turns()
    pretrain(corpus, out, make_config(name, corpus, seconds), on_step=lambda _: turns.check(), clock=turns.clock)


def pair_features(corpus: Corpus) -> Iterator[dict[str, Any]]:
    """Pairs of segments with sentence-order labels, unmasked and unpadded, as a dataset for transformers has them."""
    config = StreamConfig(length=LENGTH, packing=False, mask_rate=0.0)
    for batch, _ in BatchStream(corpus, config).batches(32):
        assert batch.attention_mask is not None
        assert batch.token_type_ids is not None
        assert batch.sentence_labels is not None
        for ids, mask, types, label in zip(
            batch.input_ids, batch.attention_mask, batch.token_type_ids, batch.sentence_labels, strict=True
        ):
            if label >= 0:
                size = int(mask.sum())
                yield {
                    "input_ids": ids[:size].tolist(),
                    "token_type_ids": types[:size].tolist(),
                    "sentence_order_label": int(label),
                }


def run_transformers(corpus: Corpus, out: Path, seconds: float, lr: float) -> None:
    """AlbertForPreTraining with its usual parts."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(corpus.folder / "tokenizer")
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        Model(
            PRESETS["albert-mini"].config.updated(vocab_size=corpus.tokenizer.vocab_size), "pretraining"
        ).save_pretrained(folder)
        model: Any = transformers.AlbertForPreTraining.from_pretrained(folder).train()
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01, fused=True)
    schedule = OptimConfig(lr=lr, warmup=0.05)
    features = pair_features(corpus)
    turns = Turns()
    begun, saved, step = turns.clock(), 0.0, 0
    while (spent := turns.clock() - begun) < seconds:
        for group in optimizer.param_groups:
            group["lr"] = max(1e-7, learning_rate(spent / seconds, schedule))
        batch = collate([next(features) for _ in range(32)])
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if spent - saved >= 60.0:
            saved = spent
            model.save_pretrained(out / f"{spent:09.1f}")
        turns.check()
    model.save_pretrained(out / f"{seconds:09.1f}")
    (out / "steps").write_text(str(step), encoding="utf-8")


def saved_models(name: str, out: Path) -> list[tuple[float, Path]]:
    """What a contestant saved, with the time that it had trained for."""
    if name.startswith(PEER):
        return sorted((float(path.name), path) for path in out.iterdir() if path.is_dir())
    found = []
    for path in sorted((out / "checkpoints").iterdir()):
        state = json.loads((path / "state" / "state.json").read_text(encoding="utf-8"))
        found.append((state["seconds"], path / "model"))
    return [entry for entry in found if entry[0] > 0]


def collated_batches(corpus: Corpus) -> list[Batch]:
    """Held-out rows with single tokens masked, by transformers' collator and a fixed seed."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(corpus.folder / "tokenizer")
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    torch.manual_seed(0)
    batches = []
    for batch in held_out_batches(corpus, StreamConfig(length=LENGTH, mask_rate=0.0), HELD_OUT_ROWS):
        special = torch.isin(batch.input_ids, torch.tensor(sorted(corpus.tokenizer.reserved_ids)))
        shown, labels = collate.torch_mask_tokens(batch.input_ids.clone(), special_tokens_mask=special)
        width = int((labels >= 0).sum(1).max())
        positions = torch.full((len(labels), width), -1)
        answers = torch.full_like(positions, NO_LABEL)
        for row, line in enumerate(labels):
            places = (line >= 0).nonzero()[:, 0]
            positions[row, : len(places)], answers[row, : len(places)] = places, line[places]
        batches.append(replace(batch, input_ids=shown, masked_positions=positions, masked_labels=answers))
    return batches


def score_all(names: list[str], corpus: Corpus, folder: Path) -> dict[str, list[dict[str, float]]]:
    """The curve of each contestant, by the same code on the same documents."""
    ngrams = held_out_batches(corpus, StreamConfig(length=LENGTH), HELD_OUT_ROWS)
    tokens = collated_batches(corpus)
    curves: dict[str, list[dict[str, float]]] = {}
    for name in names:
        curves[name] = []
        for seconds, path in saved_models(name, folder / name):
            model = Model.from_pretrained(path)
            words, single = evaluate_held_out(model, ngrams), evaluate_held_out(model, tokens)
            point = {
                "minutes": seconds / 60,
                "words": words["mlm_accuracy"],
                "tokens": single["mlm_accuracy"],
                "sentences": words["sop_accuracy"],
            }
            curves[name].append(point)
            print(name, {key: round(value, 4) for key, value in point.items()}, flush=True)
    guessers = Guessers.count(corpus)
    counted = {"words": guessers.evaluate(ngrams), "tokens": guessers.evaluate(tokens)}
    both = ("unigram", "copying")
    curves["guessers"] = [{f"{key}_{kind}": getattr(counted[key], kind) for key in counted for kind in both}]
    return curves


def minutes_to(curve: list[dict[str, float]], key: str, level: float) -> float | None:
    """When a curve first reaches a level, between two points by a straight line."""
    before = {"minutes": 0.0, key: 0.0}
    for point in curve:
        if point[key] >= level:
            share = (level - before[key]) / max(point[key] - before[key], 1e-12)
            return before["minutes"] + share * (point["minutes"] - before["minutes"])
        before = point
    return None


def draw(curves: dict[str, list[dict[str, float]]], path: Path) -> None:
    """The curves as a picture."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
    titles = {
        "words": "masked words (n-grams, as in the paper)",
        "tokens": "masked tokens (transformers' collator)",
        "sentences": "sentence order",
    }
    for axes, (key, title) in zip(panels, titles.items(), strict=True):
        for name, curve in curves.items():
            if name != "guessers":
                colour = COLOURS.get(name, COLOURS[PEER])
                axes.plot([p["minutes"] for p in curve], [100 * p[key] for p in curve], label=name, color=colour)
        if key == "sentences":
            axes.axhline(50, color="grey", linestyle=":", label="chance")
            axes.set_ylim(min(45, *axes.get_ylim()), max(55, *axes.get_ylim()))
        else:
            counted = curves["guessers"][0]
            axes.axhline(100 * counted[f"{key}_copying"], color="grey", linestyle="--", label="n-gram guesser")
            axes.axhline(100 * counted[f"{key}_unigram"], color="grey", linestyle=":", label="most frequent word")
        axes.set(title=title, xlabel="minutes of training", ylabel="% right on held-out text")
        axes.grid(alpha=0.2)
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Date": None})


def render(curves: dict[str, list[dict[str, float]]], names: list[str]) -> str:
    """A table of where each ended, and when ours reached what transformers reached in the end."""
    peer = max((name for name in names if name.startswith(PEER)), key=lambda name: curves[name][-1]["words"])
    columns = ["masked words, n-grams", "masked tokens, collator", "sentence order"]
    columns += ["minutes to transformers' last words", "… tokens"]
    lines = [f"| | {' | '.join(columns)} |", "|-" * 6 + "|"]
    for name in names:
        last = curves[name][-1]
        times = [minutes_to(curves[name], key, curves[peer][-1][key]) for key in ("words", "tokens")]
        shown = ["never" if minutes is None else f"{minutes:.1f}" for minutes in times]
        lines.append(
            f"| {name} | {last['words']:.1%} | {last['tokens']:.1%} | {last['sentences']:.1%} "
            f"| {shown[0]} | {shown[1]} |"
        )
    counted = curves["guessers"][0]
    for kind, title in (("copying", "n-gram guesser"), ("unigram", "most frequent word")):
        lines.append(f"| {title} | {counted[f'words_{kind}']:.1%} | {counted[f'tokens_{kind}']:.1%} | | | |")
    return "\n".join(lines)


def prepare_corpus(texts: list[Path], folder: Path, columns: list[str]) -> None:
    """Vocabulary and shards from the text, by litebert's own commands."""
    litebert = [sys.executable, "-m", "litebert"]
    sources = [str(path) for path in texts] + [word for column in columns for word in ("--column", column)]
    tokenizer, corpus = folder / "tokenizer", folder / "corpus"
    train = [*litebert, "tokenizer", "train", *sources, "--vocab-size", "8000", "--sentences", "200000"]
    subprocess.run([*train, "--out", str(tokenizer)], check=True)
    subprocess.run([*litebert, "prepare", *sources, "--tokenizer", str(tokenizer), "--out", str(corpus)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0, help="of training, for each contestant")
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="files; the documentation here if not given")
    parser.add_argument("--columns", nargs="*", default=["text", "paras"])
    parser.add_argument("--corpus", type=Path, help="a prepared corpus instead of --text")
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3], help="learning rates for transformers")
    parser.add_argument("--out", type=Path, help="keep the runs in this folder")
    parser.add_argument("--score-only", action="store_true", help="score runs that --out still holds")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        prepare_process()
        corpus, seconds = Corpus.open(options.corpus, verify=False), 60 * options.minutes
        if options.contestant.startswith(PEER):
            run_transformers(corpus, options.folder, seconds, float(options.contestant.rpartition(" ")[2]))
        else:
            run_ours(options.contestant, corpus, options.folder, seconds)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        path = options.corpus or folder / "corpus"
        if not path.exists():
            prepare_corpus(options.text, folder, options.columns if options.text else [])
        names = [BUDGET, THIRD, PAPER, *(f"{PEER}, learning rate {rate:g}" for rate in options.rates)]
        full = options.minutes
        if not options.score_only:
            minutes = {name: full / 3 if name == THIRD else full for name in names}
            take_turns(name_contestants(__file__, names, path, folder, minutes.__getitem__))
        corpus = Corpus.open(path)
        curves = score_all(names, corpus, folder)
        tokens = corpus.num_tokens()
    table = render(curves, names)
    print(table)
    text = ", ".join(p.name for p in options.text) or (options.corpus.name if options.corpus else "documentation")
    facts = machine() | {"text": text, "train_tokens": tokens, "minutes": options.minutes}
    picture = RESULTS / f"{facts['date']}-time-to-quality.svg"
    draw(curves, picture)
    table += f"\n\n![curves]({picture.name})"
    written = record("time-to-quality", "Held-out quality over time", table, {"machine": facts, "curves": curves})
    print(f"\nwritten to {written}")


if __name__ == "__main__":
    main()
