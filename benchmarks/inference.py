"""Vectors from one and the same encoder: litebert on onnxruntime and on torch, sentence-transformers, transformers.

All run in one process in rounds that take turns, on the same real sentences, and their vectors are compared first.
Then one short text alone, and the way from a cold start to a first vector, each time in a fresh process.

    python benchmarks/inference.py --sentences reviews.jsonl.gz --rated glue/STS-B
    python benchmarks/inference.py --model my-encoder --count 256 --rounds 7
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import litebert
from compress import measure_rated, read_sentences
from harness import interleave, machine, median_ratio, record
from litebert.api import read_rated
from litebert.hub import DEFAULT_ENCODER, resolve
from litebert.runtime import num_cores, prepare_process

OURS, ON_TORCH, PEER, PLAIN = "litebert", "litebert, torch", "sentence-transformers", "transformers"
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


def time_call(call: Callable[[], Any]) -> Callable[[], float]:
    def run() -> float:
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin

    return run


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
        "| | texts/s | beside sentence-transformers (rounds) | largest difference of a vector "
        "| one short text, median and 99th percentile | from a cold start |",
        "|-|-:|-:|-:|-:|-:|",
    ]
    for name, found in results["contestants"].items():
        ratio = found["ratio"]
        cold = f"{found['cold_seconds']:.2f} s" if "cold_seconds" in found else "–"
        lines.append(
            f"| {name} | {found['texts_per_second']:,.0f} | {ratio['ratio']:.2f} × ({ratio['low']:.2f} to "
            f"{ratio['high']:.2f}) | {found['difference']:.1e} | {found['short_ms'][0]:.1f} ms, "
            f"{found['short_ms'][1]:.1f} ms | {cold} |"
        )
    about = [
        f"{results['num_texts']} sentences of {results['source']}, {results['characters']:.0f} characters on average.",
        "fp32. litebert and sentence-transformers sort texts by length; batches of the peers have 32 texts.",
    ]
    if results["pearson"] is not None:
        about.append(f"STS-B, Pearson of cosines: {results['pearson']:.4f}.")
    return "\n".join(lines) + "\n\n" + " ".join(about)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_ENCODER, help="an encoder of texts: a folder or a hub name")
    parser.add_argument("--sentences", default="builtin:documentation", help="where the sentences come from")
    parser.add_argument("--count", type=int, default=256, help="sentences of a round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rated", type=Path, help="pairs with scores, such as the folder of STS-B")
    options = parser.parse_args()
    prepare_process()
    torch.set_num_threads(num_cores())
    folder = resolve(options.model)
    contestants = open_contestants(folder)
    texts = read_sentences(options.sentences, options.count)
    expected = np.asarray(contestants[PEER](texts))
    differences = {name: float(np.abs(embed(texts) - expected).max()) for name, embed in contestants.items()}
    wrong = [name for name, difference in differences.items() if difference > LARGEST_DIFFERENCE]
    if wrong:
        raise SystemExit(f"{', '.join(wrong)} gives other vectors than {PEER}: nothing to compare")
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
        "pearson": None if options.rated is None else measure_rated(litebert.load(folder), read_rated(options.rated)),
        "contestants": {
            name: {
                "texts_per_second": len(texts) / statistics.median(seconds[name]),
                "ratio": median_ratio(seconds[PEER], seconds[name]),
                "difference": differences[name],
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
