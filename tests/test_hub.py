"""Names of hub models come from the cache when offline; other names are told apart."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from litebert.errors import FolderError, RequestError
from litebert.hub import resolve
from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer
from tests.conftest import small_config


@pytest.fixture
def offline_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, and no network."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def add_to_cache(cache: Path, name: str, model: Model, revision: str) -> None:
    """Lay a model out as the hub's client does."""
    root = cache / f"models--{name.replace('/', '--')}"
    model.save_pretrained(root / "snapshots" / revision)
    (root / "refs").mkdir(exist_ok=True)
    (root / "refs" / "main").write_text(revision)


def test_a_cached_hub_model_is_opened_offline(offline_cache: Path) -> None:
    first, second = Model(small_config(), "pretraining"), Model(small_config(), "pretraining")
    add_to_cache(offline_cache, "someone/albert-tiny", first, "1" * 40)
    add_to_cache(offline_cache, "someone/albert-tiny", second, "2" * 40)
    newest = Model.from_pretrained("someone/albert-tiny")
    pinned = Model.from_pretrained("someone/albert-tiny", revision="1" * 40)
    assert torch.equal(newest.encoder.pooler.weight, second.encoder.pooler.weight)
    assert torch.equal(pinned.encoder.pooler.weight, first.encoder.pooler.weight)


@pytest.mark.parametrize("opens", [Model.from_pretrained, Model.read_config, Tokenizer.from_pretrained])
@pytest.mark.parametrize("name", ["nothing-there", "someone/nothing"])
def test_a_missing_model_is_said_in_a_sentence(name: str, opens: Callable[[str], object], offline_cache: Path) -> None:
    with pytest.raises(FolderError) as caught:
        opens(name)
    message = str(caught.value)
    assert message.startswith("there is no folder")
    assert message.endswith(f"{name!r}, and the hub could not be reached: check the spelling, or go online")


def test_a_run_stands_for_its_model(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    for opens in (Model.from_pretrained, Tokenizer.from_pretrained):
        with pytest.raises(FolderError, match="a run that has no model yet"):
            opens(run)
    model = Model(small_config(vocab_size=400), "masked-lm")
    model.save_pretrained(run / "model", small_tokenizer)
    assert Model.from_pretrained(str(run)).config == model.config
    assert Tokenizer.from_pretrained(run).vocab_size == 400
    assert resolve(run) == resolve(run / "model") == run / "model"


@pytest.mark.parametrize("name", ["./nothing", "/nothing", "a/b/c", "", "..", "~x", "a\\b"])
def test_paths_never_go_to_the_hub(name: str) -> None:
    with pytest.raises(FolderError, match=r"no folder|not a folder|config"):
        Model.from_pretrained(name)


def test_impossible_names_are_refused(offline_cache: Path) -> None:
    with pytest.raises(RequestError, match="no name of a hub model"):
        resolve("what is this?")
