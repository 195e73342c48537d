"""Fine-tuning: speed and what is learnt, litebert's loop against transformers' `Trainer`.

The same encoder, texts, labels, batch size, rate, schedule and number of steps, in processes that take turns. The peer
runs twice: as it comes (batches at random, padded to their longest text) and with texts grouped by length, which is
faster and learns less wherever length tells the label. Each is measured on the same development examples at its end.
Padding does not count as text. Name tables with the columns text and label, or tasks with their folders as for
`benchmarks/tasks.py`:

    python benchmarks/finetune.py --model MiniLM --texts my-table.jsonl --steps 400 --seeds 3
    python benchmarks/finetune.py --model MiniLM --texts sst-2=glue/SST-2 mrpc=glue/MRPC --steps 150 --no-grouped
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from harness import Turns, machine, name_contestants, record, take_turns
from litebert.runtime import prepare_process
from litebert.tasks.config import configure, measure_volume
from litebert.tasks.finetune import finetune, open_encoder
from litebert.tasks.metrics import evaluate_outputs
from litebert.tasks.readers.sources import OwnData, read_own
from litebert.tasks.task import Dataset
from tasks import Settings, read

OURS, PLAIN, GROUPED = "litebert", "transformers", "transformers, grouped by length"
BATCH = 32
WARM_UP = 20  # steps that are not counted
MOST_DEV = 1000


class Counter:
    """Tokens and seconds from the end of the warm-up on, in this process's turns."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.first = self.last = (0.0, 0)
        self.steps = 0

    def step(self, tokens: int) -> None:
        """Note how many tokens have been learnt from so far."""
        self.turns.check()
        self.last = (self.turns.clock(), tokens)
        self.steps += 1
        if self.steps == WARM_UP:
            self.first = self.last

    def write(self, folder: Path, metric: float) -> None:
        """Leave the figures in a folder."""
        rate = (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])
        result = {"rate": rate, "steps": self.steps, "metric": metric}
        (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


def read_texts(source: str) -> Dataset:
    """A table, or a task as NAME=FOLDER, with at most so many development examples."""
    name, sign, folder = source.partition("=")
    if sign:
        return read(name, Path(folder), Settings(num_scored=MOST_DEV))
    data = read_own(OwnData(Path(source)))
    return Dataset(data.task, {"train": data.splits["train"], "dev": data.splits["dev"][:MOST_DEV]})


def run_ours(model: str, texts: str, folder: Path, steps: int, rate: float, seed: int, length: int) -> None:
    """`litebert finetune` with its checkpoints; development examples are measured at the end alone, as the peer's."""
    data = read_texts(texts)
    shape, tokenizer, location = open_encoder(model)
    length = min(length, shape.max_positions)
    volume = measure_volume(data.task, data.splits["train"], tokenizer, length)
    config = configure(
        data.task, volume, shape, location, steps=steps, batch_size=BATCH, lr=rate, max_length=length, seed=seed
    )
    train = config.train.model_copy(update={"evaluations": 1, "compiled": False})
    counter = Counter()
    result = finetune(
        data,
        folder / "run",
        config.model_copy(update={"train": train}),
        tokenizer,
        on_step=lambda event: counter.step(event.tokens),
        clock=counter.turns.clock,
    )
    counter.write(folder, result.metrics[data.task.metric])


def run_transformers(
    model: str, texts: str, folder: Path, steps: int, rate: float, seed: int, length: int, grouped: bool = False
) -> None:
    """`Trainer` with its defaults but for batch size, rate, warm-up, dropout and what would write to disk.

    Scores are learnt as litebert learns them, with mean 0 and deviation 1: that decides more than the loop does.
    """
    import torch
    import transformers
    from datasets import Dataset as Table

    data = read_texts(texts)
    labels = {name: index for index, name in enumerate(data.task.labels)}
    scores = [] if labels else [float(example.label) for example in data.splits["train"]]
    mean, deviation = (statistics.fmean(scores), statistics.pstdev(scores)) if scores else (0.0, 1.0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    settings = transformers.AutoConfig.from_pretrained(model, num_labels=len(labels) or 1)
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        setattr(settings, name, 0.0)
    setattr(settings, "classifier_dropout_prob" if settings.model_type == "albert" else "classifier_dropout", 0.1)
    length = min(length, settings.max_position_embeddings)

    def encode(split: str) -> Any:
        rows = [
            {
                "text": example.text,
                "pair": example.pair or "",
                "label": labels[str(example.label)] if labels else (float(example.label) - mean) / deviation,
            }
            for example in data.splits[split]
        ]

        def tokenize(row: dict[str, Any]) -> Any:
            pairs = [row["pair"]] if data.task.is_pair else []
            return tokenizer(row["text"], *pairs, truncation=True, max_length=length)

        return Table.from_list(rows).map(tokenize, batched=True, remove_columns=["text", "pair"])

    torch.manual_seed(seed)
    network = transformers.AutoModelForSequenceClassification.from_pretrained(model, config=settings)
    counter = Counter()
    tokens = 0

    class Collator(transformers.DataCollatorWithPadding):
        def __call__(self, features: list[dict[str, Any]]) -> Any:
            nonlocal tokens
            tokens += sum(len(feature["input_ids"]) for feature in features)
            return super().__call__(features)

    class Watch(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
            counter.step(tokens)
            return control

    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "peer"),
        per_device_train_batch_size=BATCH,
        learning_rate=rate,
        warmup_steps=round(0.1 * steps),
        max_steps=steps,
        seed=seed,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **({"train_sampling_strategy": "group_by_length"} if grouped else {}),
    )
    trainer = transformers.Trainer(
        network, arguments, Collator(tokenizer), encode("train"), processing_class=tokenizer, callbacks=[Watch()]
    )
    trainer.train()
    logits: Any = trainer.predict(encode("dev")).predictions
    metrics, _ = evaluate_outputs(data.task, data.splits["dev"], list(logits * deviation + mean))
    counter.write(folder, metrics[data.task.metric])


def describe(texts: str, model: str, length: int) -> dict[str, Any]:
    """How long the texts are, and what is measured."""
    data = read_texts(texts)
    _, tokenizer, _ = open_encoder(model)
    volume = measure_volume(data.task, data.splits["train"], tokenizer, length)
    return {"mean": volume.tokens_per_row, "metric": data.task.metric}


def render(results: dict[str, dict[str, Any]]) -> str:
    """A table: tokens per second, how many times the peer's, and what each has learnt."""
    lines = [
        "| texts | mean tokens | | tokens/s | litebert is | metric × 100, mean (lowest to highest) |",
        "|-" * 6 + "|",
    ]
    for name, result in results.items():
        rates = {contestant: statistics.median(found) for contestant, found in result["rates"].items()}
        for contestant, rate in rates.items():
            ratio = "" if contestant == OURS else f"{rates[OURS] / rate:.2f} ×"
            found = [100 * value for value in result["metrics"][contestant]]
            spread = f"{result['metric']} {statistics.fmean(found):.1f} ({min(found):.1f} to {max(found):.1f})"
            lines.append(f"| {name} | {result['mean']:.0f} | {contestant} | {rate:,.0f} | {ratio} | {spread} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a model folder with an encoder and its tokenizer")
    parser.add_argument("--texts", nargs="+", help="tables with the columns text and label, or NAME=FOLDER of tasks")
    parser.add_argument("--max-length", type=int, default=512, help="tokens of a text that are read")
    parser.add_argument("--no-grouped", action="store_true", help="leave out the peer with texts grouped by length")
    parser.add_argument("--name", default="finetune", help="of the file with the results")
    parser.add_argument("--steps", type=int, default=400, help="of each contestant, for each table and seed")
    parser.add_argument("--lr", type=float, default=5e-5, help="the highest learning rate")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--minutes", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        prepare_process()
        schedule = (options.steps, options.lr, options.seed)
        arguments = (options.model, options.corpus, options.folder, *schedule, options.max_length)
        if options.contestant == OURS:
            run_ours(*arguments)
        else:
            run_transformers(*arguments, options.contestant == GROUPED)
        return
    results: dict[str, dict[str, Any]] = {}
    names = [OURS, PLAIN] if options.no_grouped else [OURS, PLAIN, GROUPED]
    for texts in options.texts:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
        for seed in range(options.seed, options.seed + options.seeds):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch)
                commands = name_contestants(__file__, names, texts, folder, lambda _: 0)
                more = ["--model", options.model, "--steps", str(options.steps), "--lr", str(options.lr)]
                more += ["--seed", str(seed), "--max-length", str(options.max_length)]
                take_turns({name: [*command, *more] for name, command in commands.items()})
                for name in names:
                    found[name].append(json.loads((folder / name / "result.json").read_text(encoding="utf-8")))
        task, sign, _ = texts.partition("=")
        results[task if sign else Path(texts).name.partition(".")[0]] = {
            "rates": {name: [one["rate"] for one in found[name]] for name in names},
            "metrics": {name: [one["metric"] for one in found[name]] for name in names},
            **describe(texts, options.model, options.max_length),
        }
        print(render(results))
    about = (
        f"\n\n{options.steps} steps of {BATCH} texts of at most {options.max_length} tokens, rate {options.lr:g}, "
        f"{options.seeds} seeds from {options.seed} on; padding does not count."
    )
    if not options.no_grouped:
        about += (
            " Texts grouped by length are faster to learn from and tell the label wherever length does, so that less "
            "is learnt then."
        )
    print(record(options.name, "Fine-tuning", render(results) + about, {"machine": machine(), "results": results}))


if __name__ == "__main__":
    main()
