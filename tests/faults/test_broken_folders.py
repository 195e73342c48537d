"""A broken or hostile folder gives one clear sentence that names the file, and never a crash or a running pickle."""

import json
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from litebert.errors import FolderError
from litebert.model.model import Model
from tests.conftest import small_config

WEIGHTS, CONFIG, MANIFEST = "model.safetensors", "config.json", "manifest.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good folder as transformers would write it: without a manifest."""
    Model(small_config(), "pretraining").save_pretrained(tmp_path / "model")
    (tmp_path / "model" / MANIFEST).unlink()
    return tmp_path / "model"


def refuse(folder: Path, *words: str) -> None:
    """Opening must fail with one sentence that holds these words."""
    with pytest.raises(FolderError) as caught:
        Model.from_pretrained(folder)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


def edit_config(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**content, **changes}))


def edit_tensors(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / WEIGHTS)
    edit(tensors)
    save_file(tensors, folder / WEIGHTS)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    refuse(folder, name, "missing")


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_truncated_file(folder: Path, name: str, share: float) -> None:
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: int(len(data) * share)])
    refuse(folder, name)


@pytest.mark.parametrize("text", ["[]", "null", "{", "\x00", "[" * 100_000, '{"a": ' * 5000, "NaN", "\ud800"])
def test_config_that_is_no_object(folder: Path, text: str) -> None:
    (folder / CONFIG).write_bytes(text.encode("utf-8", "surrogatepass"))
    refuse(folder, CONFIG)


HOSTILE: list[tuple[str, Any]] = [
    ("hidden_size", -1),
    ("hidden_size", 0),
    ("hidden_size", 10**12),
    ("hidden_size", "24"),
    ("hidden_size", 24.0),
    ("hidden_size", True),
    ("hidden_size", None),
    ("hidden_size", [24]),
    ("hidden_size", float("nan")),
    ("num_attention_heads", 7),
    ("num_attention_heads", 0),
    ("num_hidden_layers", 10**9),
    ("num_hidden_groups", 0),
    ("num_hidden_groups", 9),
    ("inner_group_num", -3),
    ("vocab_size", 10**18),
    ("vocab_size", 98),
    ("max_position_embeddings", 2**40),
    ("intermediate_size", 10**9),
    ("type_vocab_size", {}),
    ("hidden_act", "__import__('os').system('true')"),
    ("hidden_act", 3),
    ("hidden_dropout_prob", 1.5),
    ("hidden_dropout_prob", float("inf")),
    ("layer_norm_eps", 0),
    ("layer_norm_eps", "small"),
    ("initializer_range", -0.1),
    ("pad_token_id", 97),
    ("pad_token_id", -1),
    ("id2label", {"0": "a", "2": "b"}),
    ("id2label", {"x": "a"}),
    ("id2label", ["a"]),
    ("id2label", {"0": 1}),
    ("problem_type", "poetry"),
    ("model_type", "roberta"),
    ("model_type", ["albert"]),
    ("model_type", {"albert": 1}),
    ("position_embedding_type", "relative_key"),
    ("is_decoder", True),
    ("tie_word_embeddings", False),
    ("quantization_config", {"bits": 4}),
    ("num_hiden_layers", 12),
    ("auto_map", {"AutoModel": "modeling.Evil"}),
    ("litebert", {"config": {"hidden_size": 24, "colour": "red"}}),
    ("litebert", {"config": 3}),
]


@pytest.mark.parametrize(("key", "value"), HOSTILE, ids=[f"{key}={str(value)[:30]}" for key, value in HOSTILE])
def test_hostile_config_values(folder: Path, key: str, value: Any) -> None:
    edit_config(folder, **{key: value})
    refuse(folder, str(folder))


def test_a_required_key_is_missing(folder: Path) -> None:
    content = json.loads((folder / CONFIG).read_text())
    del content["hidden_size"]
    (folder / CONFIG).write_text(json.dumps(content))
    refuse(folder, CONFIG, "hidden_size")


def test_wrong_shape(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.update({"albert.pooler.weight": torch.zeros(3, 3)}))
    refuse(folder, WEIGHTS, "pooler", "(3, 3)", "(24, 24)")


def test_wrong_shape_of_a_third(folder: Path) -> None:
    name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.key.weight"
    edit_tensors(folder, lambda t: t.update({name: torch.zeros(5, 7)}))
    refuse(folder, WEIGHTS, "qkv")


def test_missing_tensor(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.pop("albert.embeddings.LayerNorm.weight"))
    refuse(folder, WEIGHTS, "embeddings.norm.weight", "missing")


def test_missing_third(folder: Path) -> None:
    name = "albert.encoder.albert_layer_groups.0.albert_layers.0.attention.key.weight"
    edit_tensors(folder, lambda t: t.pop(name))
    refuse(folder, WEIGHTS, "part of")


def test_missing_head_tensor(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.pop("predictions.bias"))
    refuse(folder, WEIGHTS, "masked_lm.bias")


def test_unknown_tensor(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.update({"albert.secret.weight": torch.zeros(2)}))
    refuse(folder, WEIGHTS, "secret.weight")


def test_integer_weights(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.update({"predictions.bias": torch.zeros(97, dtype=torch.int64)}))
    refuse(folder, WEIGHTS, "predictions.bias", "int64")


def test_untied_output_matrix(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.update({"predictions.decoder.weight": torch.zeros(97, 12)}))
    refuse(folder, WEIGHTS, "output matrix")


class Explosive:
    """Leaves a mark if anything ever unpickles it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pkl", "model.pt2", "data.joblib", "modeling_albert.py"])
def test_pickles_and_code_are_refused_and_nothing_runs(folder: Path, name: str) -> None:
    mark = folder.parent / "exploded"
    (folder / WEIGHTS).unlink()
    (folder / name).write_bytes(pickle.dumps({"albert.pooler.weight": Explosive(mark)}))
    refuse(folder, name)
    assert not mark.exists()


def test_a_torch_file_with_an_object_inside_is_refused(folder: Path) -> None:
    mark = folder.parent / "exploded"
    (folder / WEIGHTS).unlink()
    torch.save({"x": Explosive(mark)}, folder / "pytorch_model.bin")
    refuse(folder, "pytorch_model.bin")
    assert not mark.exists()
    torch.save({"x": "no tensor"}, folder / "pytorch_model.bin")
    refuse(folder, "pytorch_model.bin", "nothing else")


def test_an_old_file_of_tensors_is_read(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    torch.save(tensors, folder / "pytorch_model.bin")
    expected = Model.from_pretrained(folder).state_dict()
    (folder / WEIGHTS).unlink()
    found = Model.from_pretrained(folder).state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_safetensors_with_a_lying_header(folder: Path) -> None:
    data = (folder / WEIGHTS).read_bytes()
    for length in (2**63, 2**40, 0, 1, len(data) * 2):
        (folder / WEIGHTS).write_bytes(struct.pack("<Q", length) + data[8:])
        refuse(folder, WEIGHTS)


def test_shard_index_that_points_outside(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    for name in ("../model.safetensors", "/etc/passwd", "model.bin", 3):
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}))
        refuse(folder, "model.safetensors.index.json")


@pytest.mark.parametrize("content", ['{"files": []}', '{"files": {"../x": {}}}', "{}", '{"files": {"a": 3}}', "oops"])
def test_bad_manifest(folder: Path, content: str) -> None:
    (folder / MANIFEST).write_text(content)
    refuse(folder, MANIFEST)


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """Safetensors has no checksum: a flipped bit in a weight loads silently, so the manifest must find it."""
    Model(small_config(), "pretraining").save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / WEIGHTS
    good = file.read_bytes()
    generator = random.Random(0)
    for _ in range(300):
        data = bytearray(good)
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        file.write_bytes(data)
        refuse(tmp_path / "model", WEIGHTS, MANIFEST)
    file.write_bytes(good)
    Model.from_pretrained(tmp_path / "model")


def mutate(data: bytes, generator: random.Random) -> bytes:
    """Flip, cut, repeat or insert: what storage, networks and attackers do."""
    place = generator.randrange(len(data))
    match generator.randrange(5):
        case 0:
            return data[:place] + bytes([data[place] ^ (1 << generator.randrange(8))]) + data[place + 1 :]
        case 1:
            return data[:place]
        case 2:
            return data[:place] + data[place + generator.randrange(1, 40) :]
        case 3:
            return data[:place] + generator.randbytes(generator.randrange(1, 40)) + data[place:]
        case _:
            digits = generator.choice([b"0", b"-1", b"99999999999999999999", b"1e999", b"null", b"[]", b'"x"', b"true"])
            return data[:place] + digits + data[place + 1 :]


def run_campaign(tmp_path: Path, name: str, count: int) -> tuple[int, int]:
    """Open a folder `count` times with one mutated file; count refusals and loads. Anything else is a failure."""
    Model(small_config(), "pretraining").save_pretrained(tmp_path / "model")
    folder = tmp_path / "model"
    (folder / MANIFEST).unlink()
    good = (folder / name).read_bytes()
    size = len(good) if name == CONFIG else min(len(good), 6000)  # the header of the weights, and some tensors
    generator = random.Random(1)
    refused = loaded = 0
    for _ in range(count):
        (folder / name).write_bytes(mutate(good[:size], generator) + good[size:])
        try:
            Model.from_pretrained(folder)
            loaded += 1
        except FolderError:
            refused += 1
    return refused, loaded


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_mutated_files(tmp_path: Path, name: str) -> None:
    refused, loaded = run_campaign(tmp_path, name, 400)
    assert refused + loaded == 400
    assert refused > 100


@pytest.mark.soak
@pytest.mark.parametrize("name", [CONFIG, WEIGHTS])
def test_mutated_files_by_the_thousand(tmp_path: Path, name: str) -> None:
    refused, loaded = run_campaign(tmp_path, name, 5000)
    print(f"{name}: {refused} refused, {loaded} loaded, 0 crashes of 5000")
