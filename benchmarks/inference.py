"""Vectors from one and the same encoder: litebert, sentence-transformers, transformers, onnxruntime, OpenVINO.

All run in one process in rounds that take turns, on the same real texts: sentences, or whole documents with --whole.
Vectors of fp32 are compared first; those of 8 bits are judged by STS-B, as everything is. Then one short text alone,
the memory of a fresh process that embeds the same texts, and the way from a cold start to a first vector. 8 bits:
litebert's as `litebert optimize` finds them, onnxruntime's by its own tool (dynamic), OpenVINO's by nncf, which looks
at 300 texts first; peers sort texts by length, in batches of 32. With --teacher, model2vec's static vectors of that
encoder run beside: another kind of encoder, judged by the same STS-B. With --onnx-python, so does sentence-transformers
with its ONNX backend in 8 bits, in an environment of its own (onnx_backend.py).

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import litebert
from compress import read_sentences
from harness import gemm_step, interleave, machine, median_ratio, record
from litebert.api import open_sources, read_rated
from litebert.distillation.job import RatedPairs
from litebert.hub import DEFAULT_ENCODER, resolve
from litebert.model.cost import forward_flops
from litebert.presets import PRESETS
from litebert.runtime import advertises, num_cores, prepare_process

OURS, ON_TORCH, PEER, PLAIN = "litebert", "litebert, torch", "sentence-transformers", "transformers"
OURS_INT8, ORT_INT8, OPENVINO, OPENVINO_INT8 = "litebert, int8", "onnxruntime, int8", "OpenVINO", "OpenVINO, int8"
ONNX_BACKEND = "sentence-transformers, ONNX int8"
STATIC = "model2vec (static vectors of the teacher)"
EXACT = (OURS, ON_TORCH, PEER, PLAIN)  # OpenVINO takes bf16 where the CPU has it
CALIBRATING = 300
INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8")
SHORT = "a short text, to be embedded alone"
LARGEST_DIFFERENCE = 1e-4
GEMM = (1024, 1024, 1024)
MEGABYTE = 1_000_000
Embed = Callable[[list[str]], Any]


@dataclass(frozen=True)
class Setting:
    """What contestants are opened with."""

    folder: Path
    scratch: Path
    """For files that are made, or were made before."""
    calibrating: list[str]
    teacher: str | None = None
    onnx_python: str | None = None


# --- the contestants ------------------------------------------------------------------------------------------------


def open_ours(setting: Setting) -> Embed:
    return litebert.load(setting.folder).embed


def open_on_torch(setting: Setting) -> Embed:
    found = litebert.load(setting.folder)
    found.model.eval()  # from now on torch answers
    return found.embed


def open_ours_int8(setting: Setting, depth: int | None = None) -> Embed:
    """In 8 bits; what `litebert optimize` writes down is set by hand here."""
    ours = litebert.load(setting.folder)
    member = ours.members[0]
    quick = replace(ours, members=(replace(member, engine=member.engine.configured(member.engine.int8_maps)),))
    return quick.embed if depth is None else lambda texts: quick.embed(texts, depth=depth)


def open_sentence_transformers(setting: Setting) -> Embed:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(setting.folder), device="cpu")
    return lambda texts: model.encode(texts, batch_size=32)


def open_transformers(setting: Setting) -> Embed:
    from transformers import AutoModel, AutoTokenizer

    ours = litebert.load(setting.folder)
    normalizes, limit = ours.config.embedding_normalize, ours.members[0].max_length
    tokenizer = AutoTokenizer.from_pretrained(setting.folder)
    plain = AutoModel.from_pretrained(setting.folder).eval()

    def embed(texts: list[str]) -> Any:
        found = []
        with torch.inference_mode():
            for begin in range(0, len(texts), 32):
                part = texts[begin : begin + 32]
                batch = tokenizer(part, padding=True, truncation=True, max_length=limit, return_tensors="pt")
                states, mask = plain(**batch).last_hidden_state, batch["attention_mask"][:, :, None]
                found.append((states * mask).sum(1) / mask.sum(1))
        vectors = torch.cat(found)
        return (torch.nn.functional.normalize(vectors) if normalizes else vectors).numpy()

    return embed


def open_onnxruntime_int8(setting: Setting) -> Embed:
    """The exported file in 8 bits by onnxruntime's own tool."""
    import onnxruntime
    from onnxruntime.quantization import quantize_dynamic

    rounded = setting.scratch / "int8.onnx"
    if not rounded.is_file():
        quantize_dynamic(exported(setting), rounded)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_cores()
    session = onnxruntime.InferenceSession(str(rounded), options)
    return sorted_by_length(setting, lambda inputs: session.run(["sentence_embedding"], inputs)[0])


def open_openvino(setting: Setting, rounds: bool = False) -> Embed:
    """The exported file by OpenVINO, also in 8 bits by nncf."""
    import openvino

    core, file = openvino.Core(), exported(setting)
    rounded = setting.scratch / "openvino-int8.xml"
    if rounds and not rounded.is_file():
        import nncf

        examples = nncf.Dataset([encoder_of(setting)([text]) for text in setting.calibrating])
        openvino.save_model(
            nncf.quantize(core.read_model(file), examples, model_type=nncf.ModelType.TRANSFORMER), rounded
        )
    graph = core.compile_model(
        core.read_model(rounded if rounds else file), "CPU", {"INFERENCE_NUM_THREADS": num_cores()}
    )
    return sorted_by_length(setting, lambda inputs: graph(inputs)["sentence_embedding"])


class Elsewhere:
    """A contestant in an environment of its own, which measures itself."""

    def __init__(self, setting: Setting) -> None:
        assert setting.onnx_python is not None
        self.folder = setting.scratch / "sentence-transformers"
        self.folder.mkdir(exist_ok=True)
        kind = "avx512_vnni" if advertises("avx512_vnni") else "avx2"
        script = Path(__file__).with_name("onnx_backend.py")
        command = [setting.onnx_python, str(script), str(setting.folder.resolve()), str(self.folder.resolve()), kind]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds = self.peak = 0.0

    def __call__(self, texts: list[str]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(texts) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.seconds, self.peak = answer["seconds"], answer["peak"] / MEGABYTE
        return np.load(self.folder / "vectors.npy")


def open_static(setting: Setting) -> Embed:
    """model2vec with its defaults, distilled once and kept."""
    from model2vec import StaticModel

    folder = setting.scratch / "model2vec"
    if not folder.is_dir():
        from model2vec.distill import distill

        distill(setting.teacher).save_pretrained(folder)
    return StaticModel.from_pretrained(folder).encode


def exported(setting: Setting) -> Path:
    file = setting.scratch / "onnx" / "model.onnx"
    return file if file.is_file() else litebert.export(setting.folder, setting.scratch / "onnx").file


def encoder_of(setting: Setting) -> Callable[[list[str]], dict[str, Any]]:
    """From texts to the inputs of the exported file."""
    from tokenizers import Tokenizer

    exported(setting)
    tokenizer = Tokenizer.from_file(str(setting.scratch / "onnx" / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(litebert.load(setting.folder).members[0].max_length)

    def encode(texts: list[str]) -> dict[str, Any]:
        found = tokenizer.encode_batch(texts)
        names = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        return {name: np.array([getattr(one, field) for one in found]) for name, field in names.items()}

    return encode


def sorted_by_length(setting: Setting, run: Callable[[dict[str, Any]], Any]) -> Embed:
    encode = encoder_of(setting)

    def embed(texts: list[str]) -> Any:
        order = sorted(range(len(texts)), key=lambda number: -len(texts[number]))
        parts = [order[begin : begin + 32] for begin in range(0, len(order), 32)]
        vectors = np.concatenate([run(encode([texts[number] for number in part])) for part in parts])
        return vectors[np.argsort(order)]

    return embed


def list_contestants(depths: list[int], has_teacher: bool, has_backend: bool) -> dict[str, Callable[[Setting], Embed]]:
    """Ways to embed texts, by name; peers as their users call them."""
    found: dict[str, Callable[[Setting], Embed]] = {
        OURS: open_ours,
        ON_TORCH: open_on_torch,
        PEER: open_sentence_transformers,
        PLAIN: open_transformers,
        ORT_INT8: open_onnxruntime_int8,
        OPENVINO: open_openvino,
        OPENVINO_INT8: lambda setting: open_openvino(setting, rounds=True),
        OURS_INT8: open_ours_int8,
    }
    for depth in depths:
        found[f"{OURS_INT8}, depth {depth}"] = lambda setting, depth=depth: open_ours_int8(setting, depth)
    if has_backend:
        found[ONNX_BACKEND] = Elsewhere
    return found | ({STATIC: open_static} if has_teacher else {})


def measure_memory(name: str, arguments: list[str]) -> float | None:
    """Megabytes that a fresh process has at its peak which opens one contestant and embeds the texts."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments, "--alone", name], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{name} alone: {done.stderr[-500:]}")
    return float(done.stdout.split()[-1])


def peak_memory() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    raise RuntimeError("no VmHWM in /proc/self/status")


# --- what is measured -----------------------------------------------------------------------------------------------


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
        f"Instructions of this CPU: {results['instructions']}.",
    ]
    return "\n".join(lines) + "\n\n" + " ".join(about)


def make_untrained(preset: str, scratch: Path) -> Path:
    """A preset with random weights and our encoder's word pieces, to measure speed alone."""
    from litebert.model.model import Model
    from litebert.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_pretrained(DEFAULT_ENCODER)
    config = litebert.preset_config(preset).updated(vocab_size=tokenizer.vocab_size)
    torch.manual_seed(0)
    Model(config, "embedding").save_pretrained(scratch / preset, tokenizer)
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
    parser.add_argument("--alone", help=argparse.SUPPRESS)
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
    if options.alone is not None:
        embed = openers[options.alone](setting)
        embed(texts)
        print(embed.peak if isinstance(embed, Elsewhere) else peak_memory())
        return
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
    arguments = [*sys.argv[1:], "--scratch", str(scratch)]
    memory = {name: measure_memory(name, arguments) for name in contestants}
    tokens, operations = count_operations(setting, texts)
    results: dict[str, Any] = {
        "num_texts": len(texts),
        "kind": "documents" if options.whole else "sentences",
        "source": Path(options.sentences).name,
        "characters": statistics.mean(map(len, texts)),
        "tokens": tokens,
        "rates": rates,
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
    print(record(options.record, f"Vectors of {options.model}", table, {"machine": machine(), **results}))


if __name__ == "__main__":
    main()
