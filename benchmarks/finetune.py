"""Fine-tuning speed: tokens of real text per second, litebert's loop against transformers' `Trainer`.

The same encoder, the same texts and labels, the same batch size, in processes that take turns of half a minute. The
peer runs twice: as it comes (batches in random order, padded to their longest text) and with texts grouped by length.
Padding does not count as text. Name tables with the columns text and label, such as sentences of SST-2 and reviews of
IMDB:

    python benchmarks/finetune.py --model my-run/model --texts sst-2.jsonl imdb.jsonl --minutes 4
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from harness import Turns, machine, name_contestants, record, take_turns
from litebert.runtime import prepare_process
from litebert.tasks.finetune import configure, finetune, measure_volume, open_encoder
from litebert.tasks.readers.sources import OwnData, read_own
from litebert.training.job import ProgressEvent

OURS, PLAIN, GROUPED = "litebert", "transformers", "transformers, grouped by length"
BATCH, LENGTH, RATE = 32, 512, 1e-4
WARM_UP = 60.0  # seconds that are not counted: ours compiles its kernels in them


class OutOfTimeError(Exception):
    """Time is over."""


class Counter:
    """Tokens and seconds from the end of the warm-up on, in this process's turns."""

    def __init__(self, seconds: float) -> None:
        self.turns, self.seconds = Turns(), seconds
        self.begun = self.turns.clock()
        self.first: tuple[float, int] | None = None
        self.last = (0.0, 0)
        self.steps = 0

    def step(self, tokens: int) -> bool:
        """Note how many tokens have been learnt from so far; say whether there is time for more."""
        self.turns.check()
        self.last = (self.turns.clock() - self.begun, tokens)
        self.steps += 1
        if self.first is None and self.last[0] >= WARM_UP:
            self.first = self.last
        return self.last[0] < self.seconds

    def write(self, folder: Path) -> None:
        """Leave the figures in a folder."""
        assert self.first is not None, "no step ended after the warm-up: give it more minutes"
        rate = (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])
        (folder / "result.json").write_text(json.dumps({"rate": rate, "steps": self.steps}), encoding="utf-8")


def run_ours(model: str, texts: Path, folder: Path, seconds: float) -> None:
    """`litebert finetune`, with its checkpoints, without development examples, as the peer."""
    data = read_own(OwnData(texts))
    data = type(data)(data.task, {"train": data.splits["train"]})
    shape, tokenizer, place = open_encoder(model)
    volume = measure_volume(data.task, data.splits["train"], tokenizer, LENGTH)
    config = configure(data.task, volume, shape, place, epochs=1000, batch_size=BATCH, lr=RATE, max_length=LENGTH)
    counter = Counter(seconds)

    def on_step(event: ProgressEvent) -> None:
        if not counter.step(event.tokens):
            raise OutOfTimeError

    try:
        finetune(data, folder / "run", config, tokenizer, on_step=on_step, clock=counter.turns.clock)
    except OutOfTimeError:
        counter.write(folder)


def run_transformers(model: str, texts: Path, folder: Path, seconds: float, grouped: bool) -> None:
    """`Trainer` with its defaults but for batch size, learning rate and what would write to disk."""
    import transformers
    from datasets import Dataset

    data = read_own(OwnData(texts))
    labels = {name: place for place, name in enumerate(data.task.labels)}
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    rows = [{"text": example.text, "label": labels[str(example.label)]} for example in data.splits["train"]]
    encoded = Dataset.from_list(rows).map(
        lambda row: tokenizer(row["text"], truncation=True, max_length=LENGTH), batched=True, remove_columns=["text"]
    )
    network = transformers.AutoModelForSequenceClassification.from_pretrained(model, num_labels=len(labels))
    counter = Counter(seconds)
    tokens = 0

    class Collator(transformers.DataCollatorWithPadding):
        def __call__(self, features: list[dict[str, Any]]) -> Any:
            nonlocal tokens
            tokens += sum(len(feature["input_ids"]) for feature in features)
            return super().__call__(features)

    class Watch(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
            control.should_training_stop = not counter.step(tokens)
            return control

    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "peer"),
        per_device_train_batch_size=BATCH,
        learning_rate=RATE,
        num_train_epochs=1000,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        **({"train_sampling_strategy": "group_by_length"} if grouped else {}),
    )
    transformers.Trainer(
        network, arguments, Collator(tokenizer), encoded, processing_class=tokenizer, callbacks=[Watch()]
    ).train()
    counter.write(folder)


def describe(texts: Path, model: str) -> dict[str, float]:
    """How long the texts are."""
    data = read_own(OwnData(texts))
    _, tokenizer, _ = open_encoder(model)
    _, counts = tokenizer.encode_plain([str(example.text) for example in data.splits["train"][:5000]])
    lengths = np.minimum(counts + 2, LENGTH)
    return {"mean": float(lengths.mean()), "median": float(np.median(lengths)), "longest": float(lengths.max())}


def render(results: dict[str, dict[str, Any]]) -> str:
    """A table: tokens per second, and how many times the peer's."""
    lines = [
        "| texts | mean tokens | litebert | transformers | grouped by length | ratio | ratio, grouped |",
        "|-" * 7 + "|",
    ]
    for name, result in results.items():
        rates = {contestant: result["rates"][contestant] for contestant in (OURS, PLAIN, GROUPED)}
        ratios = [rates[OURS] / rates[peer] for peer in (PLAIN, GROUPED)]
        lines.append(
            f"| {name} | {result['lengths']['mean']:.0f} | {rates[OURS]:,.0f} tokens/s | {rates[PLAIN]:,.0f} "
            f"| {rates[GROUPED]:,.0f} | {ratios[0]:.2f} × | {ratios[1]:.2f} × |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a model folder with an encoder and its tokenizer")
    parser.add_argument("--texts", type=Path, nargs="+", help="tables with the columns text and label")
    parser.add_argument("--minutes", type=float, default=4.0, help="of each contestant, for each table")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        prepare_process()
        seconds = 60 * options.minutes
        if options.contestant == OURS:
            run_ours(options.model, options.corpus, options.folder, seconds)
        else:
            grouped = options.contestant == GROUPED
            run_transformers(options.model, options.corpus, options.folder, seconds, grouped)
        return
    results: dict[str, dict[str, Any]] = {}
    minutes = options.minutes
    for texts in options.texts:
        with tempfile.TemporaryDirectory() as scratch:
            names, folder = [OURS, PLAIN, GROUPED], Path(scratch)
            commands = name_contestants(__file__, names, texts.resolve(), folder, lambda _: minutes)
            take_turns({name: [*command, "--model", options.model] for name, command in commands.items()})
            rates = {
                name: json.loads((folder / name / "result.json").read_text(encoding="utf-8"))["rate"] for name in names
            }
        results[texts.name.partition(".")[0]] = {"rates": rates, "lengths": describe(texts, options.model)}
        print(render(results))
    table = render(results)
    about = f"\n\nBatches of {BATCH} texts of at most {LENGTH} tokens; padding does not count."
    print(record("finetune", "Fine-tuning speed", table + about, {"machine": machine(), "results": results}))


if __name__ == "__main__":
    main()
