"""Vectors from one and the same encoder: litebert, sentence-transformers, transformers, onnxruntime, OpenVINO.

All run in one process in rounds that take turns, on the same real texts: sentences, or whole documents with --whole.
Vectors of fp32 are compared first; those of 8 bits are judged by STS-B, as everything is. Then one short text alone,
the memory of a fresh process that embeds the same texts, and the way from a cold start to a first vector. 8 bits:
litebert's as `litebert optimize` finds them, onnxruntime's by its own tool (dynamic), OpenVINO's by nncf, which looks
at 300 texts first; peers sort texts by length, in batches of 32. litebert runs with kernels of its own where the CPU
can run them, and beside that on onnxruntime. With --teacher, model2vec's static vectors of that encoder run beside:
another kind of encoder, judged by the same STS-B. With --onnx-python, so does sentence-transformers with its ONNX
backend in 8 bits, in an environment of its own (onnx_backend.py).

    pip install sentence-transformers openvino nncf model2vec
    python benchmarks/inference.py --sentences reviews.jsonl.gz --rated glue/STS-B
    python benchmarks/inference.py --model my-encoder --rated glue/STS-B --count 256 --rounds 7 --depths 2,4
    python benchmarks/inference.py --model albert-base --whole --sentences reviews.jsonl.gz --count 64
"""

import argparse
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import litebert
from compress import read_sentences
from contestants import (
    CALIBRATING,
    EXACT,
    OURS,
    OURS_INT8,
    PEER,
    PLAIN,
    STATIC,
    Elsewhere,
    Embed,
    Setting,
    encoder_of,
    list_contestants,
)
from harness import gemm_step, interleave, machine, median_ratio, record
from litebert.api import open_sources, read_rated
from litebert.distillation.job import RatedPairs
from litebert.hub import DEFAULT_ENCODER, resolve
from litebert.model.cost import forward_flops
from litebert.presets import PRESETS, preset_config
from litebert.runtime import advertises, num_cores, prepare_process

INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8")
SHORT = "a short text, to be embedded alone"
LARGEST_DIFFERENCE = 1e-4
GEMM = (1024, 1024, 1024)


def measure_memory(name: str, setting: Setting, texts: Path, depths: str) -> float:
    """Megabytes that a fresh process has at its peak which opens one contestant and embeds the texts."""
    command = [sys.executable, str(Path(__file__).with_name("contestants.py")), name, str(texts)]
    command += [str(setting.folder), str(setting.scratch), "--depths", depths]
    for option, value in (("--teacher", setting.teacher), ("--onnx-python", setting.onnx_python)):
        command += [option, value] if value is not None else []
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name} alone: {done.stderr[-500:]}")
    return float(done.stdout.split()[-1])


def int8_gemm_step(rows: int, inner: int, columns: int) -> Callable[[], float]:
    """A bare product in 8 bits by onnxruntime, whose kernels run our layers; returns the operations it ran."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).integers(-127, 127, (inner, columns), dtype=np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "b"], ["c"])],
        "gemm",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [rows, inner])],
        [helper.make_tensor_value_info("c", TensorProto.INT32, [rows, columns])],
        [numpy_helper.from_array(weights, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_cores()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    inputs = {"a": np.random.default_rng(1).integers(0, 255, (rows, inner), dtype=np.uint8)}

    def run() -> float:
        for _ in range(5):
            session.run(None, inputs)
        return 5 * 2.0 * rows * inner * columns

    return run


def measure_rates() -> dict[str, float]:
    """Operations a second of bare products, in fp32 and in 8 bits, in turns."""
    steps = {OURS: gemm_step(*GEMM), OURS_INT8: int8_gemm_step(*GEMM)}
    operations = {name: step() for name, step in steps.items()}
    seconds = interleave({name: time_call(step) for name, step in steps.items()}, 9, 2)
    return {name: operations[name] / statistics.median(seconds[name]) for name in steps}


def count_operations(setting: Setting, texts: list[str]) -> tuple[int, float]:
    """Tokens of the texts, and the operations that an encoder needs for them, without any padding."""
    encode, config = encoder_of(setting), litebert.load(setting.folder).config
    lengths = [len(encode([text])["input_ids"][0]) for text in texts]
    return sum(lengths), sum(length * forward_flops(config, length) for length in lengths)


def time_embed(embed: Embed, texts: list[str]) -> Callable[[], float]:
    """Seconds of a call; of one elsewhere, what was measured there."""
    if not isinstance(embed, Elsewhere):
        return time_call(lambda: embed(texts))

    def run() -> float:
        embed(texts)
        return embed.seconds

    return run


def time_call(call: Callable[[], Any]) -> Callable[[], float]:
    def run() -> float:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    return run


def read_documents(source: str, count: int) -> list[str]:
    """Whole documents; encoders cut what is too long for them."""
    found = [document.text for document in itertools.islice(open_sources(source), 2000)]
    random.Random(0).shuffle(found)
    return found[:count]


def measure_cosines(embed: Embed, rated: RatedPairs) -> float:
    """Pearson correlation of cosines and scores."""
    first, second = (np.asarray(embed(texts)) for texts in (rated.first, rated.second))
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return float(np.corrcoef((first * second).sum(1) / lengths, rated.scores)[0, 1])


def start_cold(folder: Path) -> dict[str, Callable[[], float]]:
    """From nothing to the vector of one text, in a fresh process."""
    peer = "import sys; from sentence_transformers import SentenceTransformer as S; S(sys.argv[1], device='cpu')"
    commands = {
        OURS: [sys.executable, "-m", "litebert", "embed", SHORT, "--model", str(folder)],
        PEER: [sys.executable, "-c", f"{peer}.encode(sys.argv[2])", str(folder), SHORT],
    }

    def run(command: list[str]) -> Callable[[], Any]:
        return lambda: subprocess.run(command, check=True, capture_output=True)

    return {name: time_call(run(command)) for name, command in commands.items()}


def render(results: dict[str, Any]) -> str:
    """A row for each contestant."""
    lines = [
        "| | texts/s | tokens/s | beside sentence-transformers (rounds) | beside transformers | share of a bare "
        "product's rate | STS-B | largest difference of a vector | one short text, median and 99th percentile | peak "
        "memory, MB | from a cold start |",
        "|-|-:|-:|-:|-:|-:|-:|-:|-:|-:|-:|",
    ]
    for name, found in results["contestants"].items():
        ratio = found["ratio"]
        cold = f"{found['cold_seconds']:.2f} s" if "cold_seconds" in found else "–"
        share = f"{100 * found['share']:.0f} %" if "share" in found else "–"
        pearson = "–" if found["pearson"] is None else f"{found['pearson']:.4f}"
        difference = "–" if found["difference"] is None else f"{found['difference']:.1e}"
        lines.append(
            f"| {name} | {found['texts_per_second']:,.0f} | {found['tokens_per_second']:,.0f} | {ratio['ratio']:.2f} × "
            f"({ratio['low']:.2f} to {ratio['high']:.2f}) | {found['beside_plain']:.1f} × | {share} | {pearson} | "
            f"{difference} | {found['short_ms'][0]:.1f} ms, {found['short_ms'][1]:.1f} ms | {found['memory']:,.0f} | "
            f"{cold} |"
        )
    about = [
        f"{results['num_texts']} {results['kind']} of {results['source']}, {results['characters']:.0f} characters and "
        f"{results['tokens'] / results['num_texts']:.0f} tokens on average.",
        "fp32 where nothing else is said, but OpenVINO takes bf16 where the CPU has it.",
        "transformers takes texts as they come, all others sort them by length; batches of the peers have 32 texts.",
        "A bare product: 1,024 × 1,024 × 1,024, by torch in fp32 and by onnxruntime in 8 bits.",
        f"Instructions of this CPU: {results['instructions']}; litebert's own kernels "
        f"{'ran' if results['is_native'] else 'did not run'}.",
    ]
    return "\n".join(lines) + "\n\n" + " ".join(about)


def make_untrained(preset: str, scratch: Path) -> Path:
    """A preset with random weights and our encoder's word pieces, to measure speed alone."""
    from litebert.model.model import Model
    from litebert.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_pretrained(DEFAULT_ENCODER)
    config = preset_config(preset).updated(vocab_size=tokenizer.vocab_size)
    torch.manual_seed(0)
    Model(config, "sentence-embedding").save_pretrained(scratch / preset, tokenizer)
    return scratch / preset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_ENCODER, help="a folder, a hub name, or a preset (random weights)")
    parser.add_argument("--sentences", default="builtin:documentation", help="where the texts come from")
    parser.add_argument("--whole", action="store_true", help="whole documents instead of sentences")
    parser.add_argument("--count", type=int, default=256, help="texts of a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rated", type=Path, help="pairs with scores, such as the folder of STS-B")
    parser.add_argument("--depths", default="", help="numbers of passes of our own int8, with commas")
    parser.add_argument("--teacher", help="a folder that model2vec distils")
    parser.add_argument("--onnx-python", help="a Python that has sentence-transformers[onnx]")
    parser.add_argument("--record", default="inference", help="what the results are called")
    parser.add_argument("--scratch", type=Path, help="a folder for files that are made, and found again")
    options = parser.parse_args()
    prepare_process()
    torch.set_num_threads(num_cores())
    with tempfile.TemporaryDirectory() as made:
        scratch = options.scratch or Path(made)
        scratch.mkdir(exist_ok=True)
        measure(options, scratch)


def measure(options: argparse.Namespace, scratch: Path) -> None:
    if options.model in PRESETS:
        folder = scratch / options.model
        folder = folder if folder.is_dir() else make_untrained(options.model, scratch)
    else:
        folder = resolve(options.model)
    read = read_documents if options.whole else read_sentences
    texts = read(options.sentences, options.count + CALIBRATING)
    texts, calibrating = texts[: options.count], texts[options.count :]
    depths = [int(depth) for depth in options.depths.split(",") if depth]
    openers = list_contestants(depths, options.teacher is not None, options.onnx_python is not None)
    setting = Setting(folder, scratch, calibrating, options.teacher, options.onnx_python)
    contestants = {name: opened(setting) for name, opened in openers.items()}
    expected = np.asarray(contestants[PEER](texts))
    differences = {
        name: None if name == STATIC else float(np.abs(embed(texts) - expected).max())
        for name, embed in contestants.items()
    }
    wrong = [name for name in EXACT if (differences[name] or 0) > LARGEST_DIFFERENCE]
    if wrong:
        raise SystemExit(f"{', '.join(wrong)} gives other vectors than {PEER}: nothing to compare")
    pearson: dict[str, float | None] = dict.fromkeys(contestants)
    if options.rated is not None:
        rated = read_rated(options.rated)
        pearson = {name: measure_cosines(embed, rated) for name, embed in contestants.items() if name not in EXACT}
        pearson |= dict.fromkeys(EXACT, measure_cosines(contestants[OURS], rated))
    seconds = interleave({name: time_embed(embed, texts) for name, embed in contestants.items()}, options.rounds, 1)
    short = interleave({name: time_embed(embed, [SHORT]) for name, embed in contestants.items()}, 100, 5)
    rates = measure_rates()
    cold = interleave(start_cold(folder), 3, 1)
    (scratch / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    memory = {name: measure_memory(name, setting, scratch / "texts.json", options.depths) for name in contestants}
    tokens, operations = count_operations(setting, texts)
    results: dict[str, Any] = {
        "num_texts": len(texts),
        "kind": "documents" if options.whole else "sentences",
        "source": Path(options.sentences).name,
        "characters": statistics.mean(map(len, texts)),
        "tokens": tokens,
        "rates": rates,
        "is_native": litebert.load(folder).members[0].engine.is_native,
        "instructions": ", ".join(name for name in INSTRUCTIONS if advertises(name)) or "unknown",
        "contestants": {
            name: {
                "texts_per_second": len(texts) / statistics.median(seconds[name]),
                "tokens_per_second": tokens / statistics.median(seconds[name]),
                "ratio": median_ratio(seconds[PEER], seconds[name]),
                "beside_plain": statistics.median(seconds[PLAIN]) / statistics.median(seconds[name]),
                "difference": differences[name],
                "pearson": pearson[name],
                "short_ms": [1000 * float(np.percentile(short[name], share)) for share in (50, 99)],
                "memory": memory[name],
                **({"share": operations / statistics.median(seconds[name]) / rates[name]} if name in rates else {}),
                **({"cold_seconds": statistics.median(cold[name])} if name in cold else {}),
            }
            for name in contestants
        },
    }
    table = render(results)
    print(table)
    print(record(options.record, f"Vectors of {Path(options.model).name}", table, {"machine": machine(), **results}))


if __name__ == "__main__":
    main()
