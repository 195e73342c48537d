"""Folders: what is saved is opened again, in our own form too; heads can be exchanged; nothing is half written."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from litebert.config import Head, ModelConfig
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.model.head_kinds import HEADS
from litebert.model.hf import checkpoint
from litebert.model.hf.checkpoint import read_config
from litebert.model.model import Model
from tests.conftest import small_config
from tests.parity.peers import randomize

pytestmark = pytest.mark.filterwarnings("ignore:transformers (cannot|has no)")

OWN_FORM = {
    "attention": small_config(sharing="attention"),
    "ffn": small_config(sharing="ffn", embedding_size=24),
    "bert, shared": small_config(family="bert", sharing="all", embedding_size=24, activation="gelu"),
    "misrouted groups": small_config(sharing="groups", num_layers=18, num_groups=14),
    "fewer heads": small_config(num_heads=2, head_size=8),
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "config",
    [small_config(), small_config(sharing="groups", num_groups=4), *OWN_FORM.values()],
    ids=["albert", "a group for each layer", *OWN_FORM],
)
def test_saved_is_opened(config: ModelConfig, head: Head, tmp_path: Path) -> None:
    model = Model(config, head)
    randomize(model)
    model.save_pretrained(tmp_path / "model")
    again = Model.from_pretrained(tmp_path / "model")
    assert (again.config, again.head, again.fresh_tensors) == (config, head, ())
    assert read_config(tmp_path / "model") == (config, head)
    before, after = model.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not again.training
    assert all(parameter.requires_grad for parameter in again.parameters())


@pytest.mark.parametrize("config", OWN_FORM.values(), ids=OWN_FORM)
def test_own_form_says_so_and_stores_shared_tensors_once(config: ModelConfig, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="litebert's own form"):
        Model(config).save_pretrained(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == "litebert"
    assert "own form" in (tmp_path / "model" / "README.md").read_text()
    stored = sum(tensor.numel() for tensor in load_file(tmp_path / "model" / "model.safetensors").values())
    assert stored == sum(parameter.numel() for parameter in Model(config).parameters())


def test_the_folder_is_complete(tmp_path: Path) -> None:
    Model(small_config(), "pretraining").save_pretrained(tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names == {"config.json", "model.safetensors", "README.md", "manifest.json"}
    card = (tmp_path / "model" / "README.md").read_text()
    assert card.startswith("---\n")
    assert "pipeline_tag: fill-mask" in card
    assert "AlbertForPreTraining" in card
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_another_head_starts_afresh_and_keeps_the_encoder(tmp_path: Path) -> None:
    model = Model(small_config(), "pretraining")
    randomize(model)
    model.save_pretrained(tmp_path)
    tuned = Model.from_pretrained(tmp_path, "sequence-classification", labels=("bad", "good", "neither"))
    assert tuned.fresh_tensors == ("heads.classifier.linear.weight", "heads.classifier.linear.bias")
    assert tuned.heads["classifier"].linear.weight.shape == (3, 24)
    assert tuned.config.labels == ("bad", "good", "neither")
    assert torch.equal(tuned.encoder.pooler.weight, model.encoder.pooler.weight)
    tuned.save_pretrained(tmp_path / "tuned")
    relabelled = Model.from_pretrained(tmp_path / "tuned", labels=("x", "y"))
    assert relabelled.fresh_tensors == tuned.fresh_tensors


def test_a_pooler_is_drawn_where_there_was_none(tmp_path: Path) -> None:
    Model(small_config(), "masked-lm").save_pretrained(tmp_path)
    encoder = Model.from_pretrained(tmp_path, "none")
    assert encoder.fresh_tensors == ("encoder.pooler.weight", "encoder.pooler.bias")
    assert encoder.encoder.pooler.weight.abs().max() > 0


def test_saving_over_a_model_replaces_it_and_keeps_the_card(tmp_path: Path) -> None:
    Model(small_config()).save_pretrained(tmp_path)
    (tmp_path / "README.md").write_text("my own words")
    (tmp_path / "notes.txt").write_text("mine")
    second = Model(small_config(num_layers=2), "pretraining")
    second.save_pretrained(tmp_path)
    again = Model.from_pretrained(tmp_path)
    assert again.head == "pretraining"
    assert torch.equal(again.heads["sentence"].weight, second.heads["sentence"].weight)
    assert (tmp_path / "README.md").read_text() == "my own words"
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_failed_save_leaves_the_old_model_and_no_leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Model(small_config(), "pretraining")
    first.save_pretrained(tmp_path / "model")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("litebert.model.hf.checkpoint.save_file", full)
    with pytest.raises(LitebertError, match=r"cannot save to .*model: No space left"):
        Model(small_config(), "pretraining").save_pretrained(tmp_path / "model")
    monkeypatch.undo()
    again = Model.from_pretrained(tmp_path / "model")
    assert torch.equal(again.encoder.pooler.weight, first.encoder.pooler.weight)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_disk_that_is_really_full(small_disk: Path) -> None:
    small = Model(small_config())
    small.save_pretrained(small_disk / "model")
    for _ in range(20):
        with pytest.raises(LitebertError, match="cannot save to"):
            Model(small_config(vocab_size=9000)).save_pretrained(small_disk / "model")
        again = Model.from_pretrained(small_disk / "model")
        assert torch.equal(again.encoder.pooler.weight, small.encoder.pooler.weight)
        assert [path.name for path in small_disk.iterdir()] == ["model"]


def test_presets_and_unknown_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Model.from_pretrained("albert-mini", "masked-lm").head == "masked-lm"
    with pytest.raises(RequestError, match="head must be one of"):
        Model.from_pretrained("albert-mini", "poetry")  # type: ignore[arg-type]
    with pytest.raises(FolderError, match="no folder"):
        Model.from_pretrained(tmp_path / "nothing")
    with pytest.raises(FolderError, match="is a file, but a model is a folder"):
        Model.from_pretrained(__file__)


def test_a_configuration_is_read_without_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config(labels=("no", "yes"))
    Model(config, "sequence-classification").save_pretrained(tmp_path / "run" / "model")
    (tmp_path / "run" / "run.json").write_text("{}")
    monkeypatch.setattr(checkpoint, "_read_weights", lambda folder: pytest.fail("weights were read"))
    assert Model.read_config(tmp_path / "run" / "model") == Model.read_config(tmp_path / "run") == config
    assert Model.read_config("albert-base") == ModelConfig()
    (tmp_path / "run" / "model" / "model.safetensors").write_bytes(b"nothing of the kind")
    with pytest.raises(FolderError, match="damaged"):
        Model.read_config(tmp_path / "run")


@pytest.mark.parametrize("keeps_projection", [True, False])
def test_a_square_projection_shows_in_the_configuration(keeps_projection: bool, tmp_path: Path) -> None:
    config = small_config(embedding_size=24, project_square_embeddings=keeps_projection)
    Model(config, "masked-lm").save_pretrained(tmp_path)
    assert read_config(tmp_path) == (config, "masked-lm")


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("mixed", [False, True])
def test_other_precisions_are_read_as_fp32(kind: torch.dtype, mixed: bool, tmp_path: Path) -> None:
    model = Model(small_config())
    randomize(model)
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "manifest.json").unlink()
    file = tmp_path / "model" / "model.safetensors"
    stored = {name: tensor.to(kind) for name, tensor in load_file(file).items()}
    if mixed:  # as some files of the hub have it
        stored["embeddings.LayerNorm.weight"] = stored["embeddings.LayerNorm.weight"].float()
        stored["embeddings.position_ids"] = torch.arange(48)[None]
    save_file(stored, file)
    again = Model.from_pretrained(tmp_path / "model").state_dict()
    for name, tensor in model.state_dict().items():
        assert again[name].dtype == torch.float32
        assert torch.equal(again[name], tensor.to(kind).float()), name
    stored["pooler.bias"] = torch.zeros(24, dtype=torch.int32)
    save_file(stored, file)
    with pytest.raises(FolderError, match=r"pooler\.bias has the type"):
        Model.from_pretrained(tmp_path / "model")


def test_shards_are_read(tmp_path: Path) -> None:
    model = Model(small_config(), "pretraining")
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    parts = [dict(list(tensors.items())[i::2]) for i in range(2)]
    for number, part in enumerate(parts):
        save_file(part, tmp_path / f"model-{number}.safetensors")
    files = {name: f"model-{number}.safetensors" for number, part in enumerate(parts) for name in part}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    (tmp_path / "model.safetensors").unlink()
    (tmp_path / "manifest.json").unlink()
    assert read_config(tmp_path) == (model.config, "pretraining")
    again = Model.from_pretrained(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))
    (tmp_path / "model-1.safetensors").unlink()
    with pytest.raises(FolderError, match=r"model-1\.safetensors is missing"):
        Model.from_pretrained(tmp_path)
