"""Vectors from one and the same encoder: litebert, sentence-transformers, transformers, onnxruntime, OpenVINO.

All run in one process in rounds that take turns, on the same real sentences. Vectors of fp32 are compared first; those
of 8 bits are judged by STS-B, as everything is. Then one short text alone, and the way from a cold start to a first
vector, each time in a fresh process. 8 bits: litebert's as `litebert optimize` finds them, onnxruntime's by its own
tool (dynamic), OpenVINO's by nncf, which looks at 300 sentences first; peers sort texts by length, in batches of 32.

    pip install sentence-transformers openvino nncf
    python benchmarks/inference.py --sentences reviews.jsonl.gz --rated glue/STS-B
    python benchmarks/inference.py --model my-encoder --rated glue/STS-B --count 256 --rounds 7 --depths 2,4
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import litebert
from compress import read_sentences
from harness import interleave, machine, median_ratio, record
from litebert.api import read_rated
from litebert.distillation.job import RatedPairs
from litebert.hub import DEFAULT_ENCODER, resolve
from litebert.runtime import advertises, num_cores, prepare_process

OURS, ON_TORCH, PEER, PLAIN = "litebert", "litebert, torch", "sentence-transformers", "transformers"
OURS_INT8, ORT_INT8, OPENVINO, OPENVINO_INT8 = "litebert, int8", "onnxruntime, int8", "OpenVINO", "OpenVINO, int8"
CALIBRATING = 300
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8")
SHORT = "a short text, to be embedded alone"
LARGEST_DIFFERENCE = 1e-4
Embed = Callable[[list[str]], Any]


def open_contestants(folder: Path) -> dict[str, Embed]:
    """Ways to embed texts with the encoder of a folder; peers as their users call them."""
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    ours, slow = litebert.load(folder), litebert.load(folder)
    slow.model.eval()  # from now on torch answers
    peer = SentenceTransformer(str(folder), device="cpu")
    tokenizer, plain = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    normalizes, limit = ours.config.embedding_normalize, ours.members[0].max_length

    def embed_plainly(texts: list[str]) -> Any:
        found = []
        with torch.inference_mode():
            for begin in range(0, len(texts), 32):
                part = texts[begin : begin + 32]
                batch = tokenizer(part, padding=True, truncation=True, max_length=limit, return_tensors="pt")
                states, mask = plain(**batch).last_hidden_state, batch["attention_mask"][:, :, None]
                found.append((states * mask).sum(1) / mask.sum(1))
        vectors = torch.cat(found)
        return (torch.nn.functional.normalize(vectors) if normalizes else vectors).numpy()

    return {
        OURS: lambda texts: ours.embed(texts),
        ON_TORCH: lambda texts: slow.embed(texts),
        PEER: lambda texts: peer.encode(texts, batch_size=32),
        PLAIN: embed_plainly,
    }


def open_exported(folder: Path, calibrating: list[str], scratch: Path) -> dict[str, Embed]:
    """The exported file as others run it: in 8 bits by onnxruntime's own tool, and by OpenVINO."""
    import nncf
    import onnxruntime
    import openvino
    from onnxruntime.quantization import quantize_dynamic
    from tokenizers import Tokenizer

    file = litebert.export(folder, scratch / "onnx").file
    quantize_dynamic(file, scratch / "int8.onnx")
    tokenizer = Tokenizer.from_file(str(scratch / "onnx" / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(litebert.load(folder).members[0].max_length)

    def encode(texts: list[str]) -> dict[str, Any]:
        found = tokenizer.encode_batch(texts)
        names = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        return {name: np.array([getattr(one, field) for one in found]) for name, field in names.items()}

    def sorted_by_length(run: Callable[[dict[str, Any]], Any]) -> Embed:
        def embed(texts: list[str]) -> Any:
            order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
            parts = [order[begin : begin + 32] for begin in range(0, len(order), 32)]
            vectors = np.concatenate([run(encode([texts[number] for number in part])) for part in parts])
            return vectors[np.argsort(order)]

        return embed

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_cores()
    session = onnxruntime.InferenceSession(str(scratch / "int8.onnx"), options)
    core, how = openvino.Core(), {"INFERENCE_NUM_THREADS": num_cores()}
    graph = core.read_model(file)
    examples = nncf.Dataset([encode([text]) for text in calibrating])
    rounded = nncf.quantize(graph, examples, model_type=nncf.ModelType.TRANSFORMER)
    plain, small = (core.compile_model(one, "CPU", how) for one in (graph, rounded))
    return {
        ORT_INT8: sorted_by_length(lambda inputs: session.run(["sentence_embedding"], inputs)[0]),
        OPENVINO: sorted_by_length(lambda inputs: plain(inputs)["sentence_embedding"]),
        OPENVINO_INT8: sorted_by_length(lambda inputs: small(inputs)["sentence_embedding"]),
    }


def open_optimized(folder: Path, depths: list[int]) -> dict[str, Embed]:
    """litebert in 8 bits, at some depths; what `litebert optimize` writes down is set by hand here."""
    ours = litebert.load(folder)
    member = ours.members[0]
    engine = member.engine.configured(member.engine.int8_maps)
    quick = replace(ours, members=(replace(member, engine=engine),))
    return {OURS_INT8: quick.embed} | {
        f"{OURS_INT8}, depth {depth}": lambda texts, depth=depth: quick.embed(texts, depth=depth) for depth in depths
    }


def time_call(call: Callable[[], Any]) -> Callable[[], float]:
    def run() -> float:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    return run


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
        "| | texts/s | beside sentence-transformers (rounds) | beside transformers | STS-B | largest difference of a "
        "vector | one short text, median and 99th percentile | from a cold start |",
        "|-|-:|-:|-:|-:|-:|-:|-:|",
    ]
    for name, found in results["contestants"].items():
        ratio = found["ratio"]
        cold = f"{found['cold_seconds']:.2f} s" if "cold_seconds" in found else "–"
        lines.append(
            f"| {name} | {found['texts_per_second']:,.0f} | {ratio['ratio']:.2f} × ({ratio['low']:.2f} to "
            f"{ratio['high']:.2f}) | {found['beside_plain']:.1f} × | {found['pearson'] or 0:.4f} | "
            f"{found['difference']:.1e} | {found['short_ms'][0]:.1f} ms, "
            f"{found['short_ms'][1]:.1f} ms | {cold} |"
        )
    about = [
        f"{results['num_texts']} sentences of {results['source']}, {results['characters']:.0f} characters on average.",
        "fp32 where nothing else is said, but OpenVINO takes bf16 where the CPU has it.",
        "transformers takes texts as they come, all others sort them by length; batches of the peers have 32 texts.",
        f"Instructions of this CPU: {results['instructions']}.",
    ]
    return "\n".join(lines) + "\n\n" + " ".join(about)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_ENCODER, help="an encoder of texts: a folder or a hub name")
    parser.add_argument("--sentences", default="builtin:documentation", help="where the sentences come from")
    parser.add_argument("--count", type=int, default=256, help="sentences of a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rated", type=Path, required=True, help="pairs with scores, such as the folder of STS-B")
    parser.add_argument("--depths", default="", help="numbers of passes of our own int8, with commas")
    options = parser.parse_args()
    prepare_process()
    torch.set_num_threads(num_cores())
    folder = resolve(options.model)
    texts = read_sentences(options.sentences, options.count + CALIBRATING)
    texts, calibrating = texts[: options.count], texts[options.count :]
    depths = [int(depth) for depth in options.depths.split(",") if depth]
    contestants = open_contestants(folder)
    exact = [*contestants]  # OpenVINO takes bf16 where the CPU has it
    with tempfile.TemporaryDirectory() as scratch:
        contestants |= open_exported(folder, calibrating, Path(scratch)) | open_optimized(folder, depths)
    expected = np.asarray(contestants[PEER](texts))
    differences = {name: float(np.abs(embed(texts) - expected).max()) for name, embed in contestants.items()}
    wrong = [name for name in exact if differences[name] > LARGEST_DIFFERENCE]
    if wrong:
        raise SystemExit(f"{', '.join(wrong)} gives other vectors than {PEER}: nothing to compare")
    rated = read_rated(options.rated)
    pearson = {name: measure_cosines(embed, rated) for name, embed in contestants.items() if name not in exact}
    pearson |= dict.fromkeys(exact, measure_cosines(contestants[OURS], rated))
    seconds = interleave(
        {name: time_call(lambda embed=embed: embed(texts)) for name, embed in contestants.items()}, options.rounds, 1
    )
    short = interleave(
        {name: time_call(lambda embed=embed: embed([SHORT])) for name, embed in contestants.items()}, 100, 5
    )
    cold = interleave(start_cold(folder), 3, 1)
    results: dict[str, Any] = {
        "num_texts": len(texts),
        "source": Path(options.sentences).name,
        "characters": statistics.mean(map(len, texts)),
        "instructions": ", ".join(name for name in INSTRUCTIONS if advertises(name)) or "unknown",
        "contestants": {
            name: {
                "texts_per_second": len(texts) / statistics.median(seconds[name]),
                "ratio": median_ratio(seconds[PEER], seconds[name]),
                "beside_plain": statistics.median(seconds[PLAIN]) / statistics.median(seconds[name]),
                "difference": differences[name],
                "pearson": pearson[name],
                "short_ms": [1000 * float(np.percentile(short[name], share)) for share in (50, 99)],
                **({"cold_seconds": statistics.median(cold[name])} if name in cold else {}),
            }
            for name in contestants
        },
    }
    table = render(results)
    print(table)
    print(record("inference", f"Vectors of {options.model}", table, {"machine": machine(), **results}))


if __name__ == "__main__":
    main()
