"""brightmart's variant becomes an ordinary ALBERT with the same outputs."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import litebert
from litebert.errors import FolderError
from litebert.model.model import Model
from tests.conftest import need
from tests.parity.peers import quiet

SIZES = {"vocab_size": 60, "hidden_size": 24, "embedding_size": 10, "intermediate_size": 40, "num_hidden_layers": 3}
LAYER = "bert.encoder.layer_shared."


def variant_tensors() -> dict[str, Tensor]:
    """Random weights under brightmart's names, with the leftovers that its files carry."""
    h, e, f, v = 24, 10, 40, 60
    shapes = {
        "bert.embeddings.word_embeddings.weight": (v, e),
        "bert.embeddings.word_embeddings_2.weight": (h, e),
        "bert.embeddings.position_embeddings.weight": (32, h),
        "bert.embeddings.token_type_embeddings.weight": (2, h),
        "cls.predictions.bias": (v,),
        "cls.predictions.project_layer.weight": (e, h),
        "cls.predictions.decoder.weight": (v, e),
    }
    for name, out, inner in [
        (LAYER + "attention.self.query", h, h),
        (LAYER + "attention.self.key", h, h),
        (LAYER + "attention.self.value", h, h),
        (LAYER + "attention.output.dense", h, h),
        (LAYER + "intermediate.dense", f, h),
        (LAYER + "output.dense", h, f),
        ("bert.pooler.dense", h, h),
        ("cls.predictions.transform.dense", h, h),
        ("cls.seq_relationship", 2, h),
    ]:
        shapes |= {f"{name}.weight": (out, inner), f"{name}.bias": (out,)}
    norms = ["bert.embeddings.", LAYER + "attention.output.", LAYER + "output.", "cls.predictions.transform."]
    for name in norms:
        shapes |= {f"{name}LayerNorm.weight": (h,), f"{name}LayerNorm.bias": (h,)}
    generator = torch.Generator().manual_seed(0)
    return {name: 0.3 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def reference(t: dict[str, Tensor], ids: Tensor) -> Tensor:
    """The variant as its authors compute it, word by word: logits of every word at every position."""

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, t[f"{name}.weight"], t[f"{name}.bias"])

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], t[f"{name}.LayerNorm.weight"], t[f"{name}.LayerNorm.bias"], 1e-12)

    words, up = t["bert.embeddings.word_embeddings.weight"], t["bert.embeddings.word_embeddings_2.weight"]
    x = words[ids] @ up.T + t["bert.embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = norm(x + t["bert.embeddings.token_type_embeddings.weight"][0], "bert.embeddings")
    for _ in range(3):
        q, k, v = (linear(x, f"{LAYER}attention.self.{n}").unflatten(-1, (4, 6)) for n in ("query", "key", "value"))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / 6**0.5
        mixed = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(2)
        x = norm(x + linear(mixed, f"{LAYER}attention.output.dense"), f"{LAYER}attention.output")
        x = norm(x + linear(F.gelu(linear(x, f"{LAYER}intermediate.dense")), f"{LAYER}output.dense"), f"{LAYER}output")
    x = norm(F.gelu(linear(x, "cls.predictions.transform.dense")), "cls.predictions.transform")
    return (x @ up) @ words.T + t["cls.predictions.bias"]


def write_variant(folder: Path, tensors: dict[str, Tensor]) -> None:
    config = {**SIZES, "num_attention_heads": 4, "max_position_embeddings": 32, "hidden_act": "gelu"}
    extra = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "type_vocab_size": 2, "ln_type": "postln"}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**config, **extra, "directionality": "bidi"}))
    torch.save(tensors, folder / "pytorch_model.bin")


def test_same_logits_as_the_variant(tmp_path: Path) -> None:
    tensors = variant_tensors()
    write_variant(tmp_path / "variant", tensors)
    model = Model.from_pretrained(tmp_path / "variant")
    assert model.head == "pretraining"
    assert Model.read_config(tmp_path / "variant") == model.config
    ids = torch.tensor([[2, 7, 33, 59, 4, 3]])
    found = model(ids).prediction_logits
    torch.testing.assert_close(found, reference(tensors, ids), atol=1e-4, rtol=1e-4)
    model.save_pretrained(tmp_path / "ours")  # and from here on it is an ordinary folder
    torch.testing.assert_close(Model.from_pretrained(tmp_path / "ours")(ids).prediction_logits, found)


def test_a_broken_variant_is_refused(tmp_path: Path) -> None:
    tensors = variant_tensors()
    tensors["bert.embeddings.word_embeddings_2.weight"] = torch.zeros(24, 11)
    write_variant(tmp_path, tensors)
    with pytest.raises(FolderError, match="do not fit together"):
        Model.from_pretrained(tmp_path)


def test_chinese_makes_sense_here_and_in_transformers(real_data: Path, tmp_path: Path) -> None:
    transformers = need("transformers")

    pipeline = litebert.load(real_data / "weights" / "albert_tiny_zh")
    expected = {"今天天气很[MASK]。": "好", "中国的首都是[MASK]京。": "北", "他的身体很[MASK]康。": "健"}
    for text, word in expected.items():
        assert pipeline.fill_mask(text, top=1)[0][0].text == word
    pipeline.model.save_pretrained(tmp_path, pipeline.tokenizer)
    with quiet():
        theirs = transformers.pipeline("fill-mask", str(tmp_path))
    for text, word in expected.items():
        assert theirs(text, top_k=1)[0]["token_str"] == word
