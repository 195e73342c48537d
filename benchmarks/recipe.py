"""What each choice of the budget recipe is worth: the recipe, and the recipe with one thing changed, at equal time.

Each variant pretrains albert-mini on the same corpus in a process of its own, in turns of half a minute, and is then
scored on the same held-out text (masked words with n-gram masks, and with single tokens). One seed each: take
differences below half a point as noise.

    python benchmarks/recipe.py --corpus my-corpus --minutes 3
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from harness import Turns, machine, name_contestants, record, take_turns
from litebert.corpus.corpus import Corpus
from litebert.corpus.stream import StreamConfig
from litebert.model.model import Model
from litebert.presets import PRESETS
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.evaluation import evaluate_held_out, held_out_batches
from litebert.pretraining.job import pretrain
from litebert.pretraining.recipes import budget_run
from litebert.runtime import prepare_process

RECIPE = "the recipe"
FULL_DEPTH: list[dict[str, Any]] = [{}]
VARIANTS: dict[str, dict[str, Any]] = {
    RECIPE: {},
    "no head start": {"head_start": False},
    "full depth from the start": {"train": {"stages": FULL_DEPTH}},
    "neither": {"head_start": False, "train": {"stages": FULL_DEPTH}},
    "initial weights of 0.02": {"model": {"initializer_range": 0.02}},
    "rows of 64 tokens, twice as many": {"stream": {"length": 64}, "train": {"batch_size": 32}},
    "batch of 4,096 tokens": {"train": {"batch_size": 32}},
    "batch of 1,024 tokens": {"train": {"batch_size": 8}},
    "learning rate 2e-3": {"train": {"optim": {"lr": 2e-3}}},
    "LAMB, learning rate 5e-3": {"train": {"optim": {"optimizer": "lamb", "lr": 5e-3}}},
    "30 % masked": {"stream": {"mask_rate": 0.3}},
    "single words masked": {"stream": {"max_ngram": 1}},
    "12 % replaced": {"replaced_rate": 0.12},
}


def make_config(name: str, corpus: Corpus, seconds: float) -> PretrainConfig:
    """The recipe with one thing changed."""
    model = PRESETS["albert-mini"].config.updated(vocab_size=corpus.tokenizer.vocab_size)
    settings = budget_run(model, seconds).model_dump(mode="json")
    _merge(settings, VARIANTS[name])
    return PretrainConfig.parse(settings)


def _merge(settings: dict[str, Any], changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        if isinstance(value, dict):
            _merge(settings[name], value)
        else:
            settings[name] = value


def run_variant(name: str, corpus: Corpus, folder: Path, seconds: float) -> None:
    """Pretrain, then score; scoring is not part of the time."""
    turns = Turns()
    config = make_config(name, corpus, seconds)
    outcome = pretrain(corpus, folder / "run", config, on_step=lambda _: turns.check(), clock=turns.clock)
    model = Model.from_pretrained(folder / "run" / "model")
    ngrams, singles = (
        evaluate_held_out(model, held_out_batches(corpus, StreamConfig(length=128, max_ngram=n), 512)) for n in (3, 1)
    )
    result = {"words": ngrams["mlm_accuracy"], "single_words": singles["mlm_accuracy"]}
    result |= {"sentences": ngrams["sop_accuracy"], "steps": outcome.step, "tokens": outcome.tokens}
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


def render(results: dict[str, dict[str, float]]) -> str:
    """A table, the recipe first."""
    lines = ["| | masked words, n-grams | single tokens | sentence order | steps | tokens |", "|-|-|-|-|-|-|"]
    for name, row in results.items():
        lines.append(
            f"| {name} | {row['words']:.1%} | {row['single_words']:.1%} | {row['sentences']:.1%} "
            f"| {row['steps']:,} | {row['tokens'] / 1e6:.1f} M |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="a corpus that `litebert prepare` made")
    parser.add_argument("--minutes", type=float, default=3.0, help="of training, for each variant")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        prepare_process()
        corpus = Corpus.open(options.corpus, verify=False)
        run_variant(options.contestant, corpus, options.folder, 60 * options.minutes)
        return
    with tempfile.TemporaryDirectory() as scratch:
        minutes = options.minutes
        commands = name_contestants(__file__, options.variants, options.corpus, Path(scratch), lambda _: minutes)
        take_turns(commands)
        results = {
            name: json.loads((Path(scratch) / name / "result.json").read_text(encoding="utf-8")) for name in commands
        }
    table = render(results)
    print(table)
    title = f"The budget recipe and its neighbours, after {options.minutes:g} minutes each"
    print(record("recipe", title, table, {"machine": machine(), "results": results}))


if __name__ == "__main__":
    main()
