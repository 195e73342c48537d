"""What the loop costs: `litebert pretrain` with data, logging, evaluation and checkpoints, beside bare steps.

Both train albert-mini at full depth, 32 × 128, each in a process of its own, in turns of half a minute. The bare
one repeats loss, gradient and AdamW on eight batches that lie ready, as benchmarks/train_step.py does. Of both, the
first minute (where kernels are compiled) does not count.

    python benchmarks/loop.py --corpus my-corpus --minutes 5
"""

import argparse
import json
import tempfile
from itertools import islice
from pathlib import Path

import torch

from harness import Turns, machine, name_contestants, record, take_turns
from litebert.corpus.corpus import Corpus
from litebert.corpus.stream import BatchStream
from litebert.model.lean import kernels
from litebert.model.model import Model
from litebert.presets import PRESETS
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.job import pretrain
from litebert.pretraining.recipes import budget_run
from litebert.runtime import prepare_process
from litebert.training.config import Stage
from litebert.training.objectives import pretraining_loss

ROWS, WARM_UP = 32, 60.0
LOOP, BARE = "litebert pretrain", "bare steps"


def make_config(corpus: Corpus, seconds: float) -> PretrainConfig:
    """The budget recipe at full depth, scored every 90 seconds as in a run of half an hour, and saved as often."""
    model = PRESETS["albert-mini"].config.updated(vocab_size=corpus.tokenizer.vocab_size)
    config = budget_run(model, 1800.0, batch_size=ROWS, length=128)
    often = max(1, round(seconds / 90))
    changes = {
        "stages": (Stage(),),
        "seconds": seconds,
        "evaluations": often,
        "save_seconds": 90.0,
        "precision": "fp32",
    }
    train = config.train.model_copy(update=changes)
    return config.model_copy(update={"train": train, "replaced_rate": 0.0})  # bare steps replace nothing


def run_loop(corpus: Corpus, folder: Path, seconds: float) -> None:
    """The real thing; its logbook says how far it came."""
    turns = Turns()
    pretrain(corpus, folder / "run", make_config(corpus, seconds), on_step=lambda _: turns.check(), clock=turns.clock)
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    steps = [line for line in lines if line["kind"] == "step" and line["seconds"] >= WARM_UP]
    first, last = steps[0], steps[-1]
    # The logbook's clock runs on while held-out text is scored and checkpoints are written.
    rate = (last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"])
    (folder / "tokens_per_second").write_text(str(rate), encoding="utf-8")


def run_bare(corpus: Corpus, folder: Path, seconds: float) -> None:
    """Steps on batches that lie ready."""
    config = make_config(corpus, seconds)
    batches = [batch for batch, _ in islice(BatchStream(corpus, config.stream).batches(ROWS), 8)]
    kernels.use_compiled(config.train.compiled)
    model = Model(config.model, "pretraining").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    turns = Turns()
    begun, tokens, step, counted_from = turns.clock(), 0, 0, 0.0
    while (spent := turns.clock() - begun) < seconds:
        if spent < WARM_UP:
            tokens, counted_from = 0, spent
        batch = batches[step % len(batches)]
        optimizer.zero_grad()
        loss = pretraining_loss(model, batch)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        tokens, step = tokens + batch.num_tokens, step + 1
        turns.check()
    (folder / "tokens_per_second").write_text(str(tokens / (spent - counted_from)), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=5.0, help="of each")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        prepare_process()
        corpus = Corpus.open(options.corpus, verify=False)
        {LOOP: run_loop, BARE: run_bare}[options.contestant](corpus, options.folder, 60 * options.minutes)
        return
    with tempfile.TemporaryDirectory() as name:
        minutes = options.minutes
        commands = name_contestants(__file__, [LOOP, BARE], options.corpus, Path(name), lambda _: minutes)
        take_turns(commands)
        rates = {
            contestant: float((Path(name) / contestant / "tokens_per_second").read_text(encoding="utf-8"))
            for contestant in commands
        }
    table = "| | tokens/s |\n|-|-|\n" + "\n".join(f"| {name} | {rate:,.0f} |" for name, rate in rates.items())
    table += f"\n| the loop, of bare steps | {rates[LOOP] / rates[BARE]:.1%} |"
    print(table)
    print(record("loop", "The training loop beside bare steps", table, {"machine": machine(), "rates": rates}))


if __name__ == "__main__":
    main()
