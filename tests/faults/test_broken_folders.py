"""A broken or hostile folder gives one clear sentence that names the file, and never a crash or a running pickle."""

import json
import multiprocessing
import os
import pickle
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentencepiece import sentencepiece_model_pb2 as protocol

from litebert.errors import FolderError, LitebertError
from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer
from tests.conftest import small_config
from tests.text.test_tokenizer import PIECES
from tests.work import measure

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
    ("litebert", {"head": ["pretraining"], "config": {"hidden_size": 25}}),
]


@pytest.mark.parametrize(("key", "value"), HOSTILE, ids=[f"{key}={str(value)[:30]}" for key, value in HOSTILE])
def test_hostile_config_values(folder: Path, key: str, value: Any) -> None:
    edit_config(folder, **{key: value})
    refuse(folder, str(folder))


def test_sizes_that_multiply_to_absurdity(folder: Path) -> None:
    with mock.patch.object(torch.nn.Module, "__init__", side_effect=AssertionError("a part of it was built")):
        edit_config(folder, num_hidden_layers=1024, num_hidden_groups=1024, inner_group_num=1024)
        refuse(folder, CONFIG, "layers")
        edit_config(folder, num_hidden_layers=1024, num_hidden_groups=1024, inner_group_num=1, hidden_size=120_000)
        refuse(folder, CONFIG, "parameters")


def test_a_head_that_is_no_name(folder: Path) -> None:
    edit_config(folder, litebert={"head": []})
    assert Model.from_pretrained(folder).head == "pretraining"  # as its class name says


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, MANIFEST])
def test_pipes_and_devices_are_no_files(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    refuse(folder, name)
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    refuse(folder, name)


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


def test_one_tensor_under_two_names(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.update({"pooler.weight": torch.zeros(24, 24)}))
    refuse(folder, WEIGHTS, "two names")


def test_a_missing_part_of_a_kept_head_is_not_drawn(folder: Path) -> None:
    edit_tensors(folder, lambda t: t.pop("predictions.dense.weight"))
    with pytest.raises(FolderError, match=r"masked_lm\.dense\.weight is missing"):
        Model.from_pretrained(folder, "masked-lm")


@pytest.mark.filterwarnings("ignore:transformers cannot hold")
def test_own_form_is_exact(tmp_path: Path) -> None:
    Model(small_config(sharing="ffn")).save_pretrained(tmp_path / "own")
    (tmp_path / "own" / MANIFEST).unlink()
    good = (tmp_path / "own" / WEIGHTS).read_bytes()
    for name in ("secret.weight", "encoder.zzz", "heads.masked_lm.bias"):
        edit_tensors(tmp_path / "own", lambda t, name=name: t.update({name: torch.zeros(2)}))
        refuse(tmp_path / "own", WEIGHTS, name)
        (tmp_path / "own" / WEIGHTS).write_bytes(good)


@pytest.mark.parametrize("part", ["weight", "bias"])
def test_half_a_square_projection(tmp_path: Path, part: str) -> None:
    Model(small_config(embedding_size=24)).save_pretrained(tmp_path / "model")
    (tmp_path / "model" / MANIFEST).unlink()
    edit_tensors(tmp_path / "model", lambda t: t.pop(f"encoder.embedding_hidden_mapping_in.{part}"))
    refuse(tmp_path / "model", WEIGHTS, f"projection.{part} is missing")


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


def test_tensors_that_are_not_what_they_claim(folder: Path) -> None:
    words = "albert.embeddings.word_embeddings.weight"
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    stretched = torch.zeros(1).expand(97, 12)
    for odd in (stretched, tensors[words].to_sparse(), tensors[words].to("meta")):
        torch.save({**tensors, words: odd}, folder / "pytorch_model.bin")
        refuse(folder, "pytorch_model.bin", "ordinary tensors")
    torch.save(tensors, folder / "pytorch_model.bin")
    with zipfile.ZipFile(folder / "pytorch_model.bin") as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    refuse(folder, "pytorch_model.bin", "compressed")


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


@pytest.mark.parametrize(
    "content",
    [
        '{"files": {"\\u0000": {}}}',
        '{"files": {"\\ud800": {}}}',
        '{"files": []}',
        '{"files": {"../x": {}}}',
        "{}",
        '{"files": {"a": 3}}',
        "oops",
    ],
)
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


MOST_WORK = 500  # times the processor time of a good file is what a broken one may take


def run_campaign(tmp_path: Path, name: str, count: int) -> tuple[int, int]:
    """Open a folder `count` times with one mutated file; count refusals and loads. Anything else is a failure."""
    folder = tmp_path / "model"
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES), encoding="utf-8")
    tokenizer = Tokenizer.from_pretrained(tmp_path / "vocab.txt")
    Model(small_config(), "pretraining").save_pretrained(folder, tokenizer)
    (folder / MANIFEST).unlink()
    good = (folder / name).read_bytes()
    size = min(len(good), 6000)  # of the weights, the header and some tensors
    generator = random.Random(1)
    refused = loaded = 0

    def open_folder() -> None:
        nonlocal refused, loaded
        try:
            Tokenizer.from_pretrained(folder) if "tokenizer" in name else Model.from_pretrained(folder)
            loaded += 1
        except LitebertError:
            refused += 1

    limit = MOST_WORK * measure(open_folder)
    for _ in range(count):
        (folder / name).write_bytes(mutate(good[:size], generator) + good[size:])
        assert measure(open_folder) < limit
    return refused, loaded - 1


FILES = [CONFIG, WEIGHTS, "tokenizer.json", "tokenizer_config.json"]


@pytest.mark.parametrize("name", FILES)
def test_mutated_files(tmp_path: Path, name: str) -> None:
    refused, _ = run_campaign(tmp_path, name, 300)
    assert refused > 60


@pytest.mark.soak
@pytest.mark.parametrize("name", FILES)
def test_mutated_files_by_the_thousand(tmp_path: Path, name: str) -> None:
    refused, loaded = run_campaign(tmp_path, name, 2500)
    print(f"{name}: {refused} refused, {loaded} loaded, 0 crashes of 2500")


def change_model(good: bytes, generator: random.Random) -> bytes:
    """Change what a model says, so that it stays a model in form."""
    proto: Any = protocol.ModelProto.FromString(good)  # type: ignore[attr-defined]
    piece = generator.choice(proto.pieces)
    match generator.randrange(7):
        case 0:
            piece.piece = generator.choice(["", "▁", "<unk>", "[MASK]", "0,", "▁٣,", "1▁2,", "\x00", "x" * 5000, "²,"])
        case 1:
            piece.score = generator.choice([float("nan"), float("inf"), float("-inf"), 1e30, -1e30, 0.0])
        case 2:
            piece.type = generator.randrange(1, 7)
        case 3:
            field = generator.choice(["unk_id", "pad_id", "model_type", "vocab_size"])
            setattr(proto.trainer_spec, field, generator.choice([1, 2, 3, 4]))
        case 4:
            field = generator.choice(["add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"])
            setattr(proto.normalizer_spec, field, False)
        case 5:
            proto.normalizer_spec.precompiled_charsmap = mutate(proto.normalizer_spec.precompiled_charsmap, generator)
        case _:
            place = generator.randrange(len(proto.pieces))
            del proto.pieces[place : place + generator.randrange(1, 400)]
    return bytes(proto.SerializeToString())


def use_mutated_models(good: bytes, folder: Path, count: int, seed: int) -> None:
    """Read and use mutated SentencePiece models, and write down how many were refused and loaded."""
    generator = random.Random(seed)
    (folder / "out").mkdir(exist_ok=True)
    refused = loaded = number = 0

    def use_model() -> None:
        nonlocal refused, loaded
        try:
            tokenizer = Tokenizer.from_pretrained(folder)
            tokenizer.encode(["The river, [MASK] 1990, 한국어 \x00 ½", ""])
            for span in tokenizer.spans("The river, 1990, 한국어 \u1112\u1161 ½"):
                assert 0 <= span.begin <= span.end <= 30
            tokenizer.decode([5, 20, 30])
            if number % 20 == 0:
                tokenizer.write_files(folder / "out")
            loaded += 1
        except LitebertError:
            refused += 1

    limit = MOST_WORK * measure(use_model)
    for number in range(count):
        # The pieces come first, then the settings, then a long table for the normalization.
        size = generator.choice([1000, 10_000, len(good)])
        data = mutate(good[:size], generator) + good[size:] if number % 2 else change_model(good, generator)
        (folder / "spiece.model").write_bytes(data)
        assert measure(use_model) < limit
    (folder / "result.json").write_text(json.dumps([refused, loaded - 1]))


def run_model_campaign(tokenizer: Tokenizer, folder: Path, count: int, seed: int = 1) -> tuple[int, int]:
    """Do so in a process of its own, because the library is C++ and could take pytest with it."""
    tokenizer.write_files(folder)
    good = (folder / "spiece.model").read_bytes()
    (folder / "tokenizer.json").unlink()
    child = multiprocessing.get_context("spawn").Process(target=use_mutated_models, args=(good, folder, count, seed))
    child.start()
    child.join(600 + count)
    assert child.exitcode == 0, f"exit code {child.exitcode}; the file is in {folder}"
    refused, loaded = json.loads((folder / "result.json").read_text())
    assert refused + loaded == count
    return refused, loaded


def test_mutated_sentencepiece_models(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    refused, loaded = run_model_campaign(small_tokenizer, tmp_path, 200)
    assert refused > 40
    assert loaded > 20


@pytest.mark.soak
def test_mutated_sentencepiece_models_by_the_thousand(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    refused, loaded = run_model_campaign(small_tokenizer, tmp_path, 10_000, seed=2)
    print(f"spiece.model: {refused} refused, {loaded} loaded, 0 crashes of 10000")
