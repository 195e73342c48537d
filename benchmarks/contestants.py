"""Ways to embed texts with one and the same encoder, by name, for inference.py; peers as their users call them.

Nothing here loads torch before a contestant needs it: run as a program, it says how much memory one of them takes.
"""

import argparse
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import litebert
from litebert.runtime import advertises, num_cores, prepare_process

OURS, ON_TORCH, PEER, PLAIN = "litebert", "litebert, torch", "sentence-transformers", "transformers"
OURS_INT8, ORT_INT8, OPENVINO, OPENVINO_INT8 = "litebert, int8", "onnxruntime, int8", "OpenVINO", "OpenVINO, int8"
ON_ORT, ON_ORT_INT8 = "litebert, on onnxruntime", "litebert, int8, on onnxruntime"  # without kernels of our own
ONNX_BACKEND = "sentence-transformers, ONNX int8"
STATIC = "model2vec (static vectors of the teacher)"
EXACT = (OURS, ON_ORT, ON_TORCH, PEER, PLAIN)  # OpenVINO takes bf16 where the CPU has it
CALIBRATING = 300
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


def without_kernels(open_one: Callable[[Setting], Embed], setting: Setting) -> Embed:
    """One of ours as it runs where our kernels cannot."""
    os.environ["LITEBERT_NATIVE"] = "0"
    embed = open_one(setting)
    embed(["a text"])  # by which it is settled what runs
    del os.environ["LITEBERT_NATIVE"]
    return embed


def open_sentence_transformers(setting: Setting) -> Embed:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(setting.folder), device="cpu")
    return lambda texts: model.encode(texts, batch_size=32)


def open_transformers(setting: Setting) -> Embed:
    import torch
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
        ON_ORT: lambda setting: without_kernels(open_ours, setting),
        ON_TORCH: open_on_torch,
        PEER: open_sentence_transformers,
        PLAIN: open_transformers,
        ORT_INT8: open_onnxruntime_int8,
        OPENVINO: open_openvino,
        OPENVINO_INT8: lambda setting: open_openvino(setting, rounds=True),
        OURS_INT8: open_ours_int8,
        ON_ORT_INT8: lambda setting: without_kernels(open_ours_int8, setting),
    }
    for depth in depths:
        found[f"{OURS_INT8}, depth {depth}"] = lambda setting, depth=depth: open_ours_int8(setting, depth)
    if has_backend:
        found[ONNX_BACKEND] = Elsewhere
    return found | ({STATIC: open_static} if has_teacher else {})


# --- alone ------------------------------------------------------------------------------------------------------------


def peak_memory() -> float:
    """Megabytes that this process had at its peak."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024 / MEGABYTE
    raise RuntimeError("no VmHWM in /proc/self/status")


def main() -> None:
    """Open one contestant, embed texts, and print the peak of the memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("texts", type=Path, help="a JSON list")
    parser.add_argument("folder", type=Path)
    parser.add_argument("scratch", type=Path, help="where the exported files lie already")
    parser.add_argument("--depths", default="")
    parser.add_argument("--teacher")
    parser.add_argument("--onnx-python")
    options = parser.parse_args()
    prepare_process()
    depths = [int(depth) for depth in options.depths.split(",") if depth]
    openers = list_contestants(depths, options.teacher is not None, options.onnx_python is not None)
    embed = openers[options.name](Setting(options.folder, options.scratch, [], options.teacher, options.onnx_python))
    embed(json.loads(options.texts.read_text(encoding="utf-8")))
    print(embed.peak if isinstance(embed, Elsewhere) else peak_memory())


if __name__ == "__main__":
    main()
