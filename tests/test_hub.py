"""Names of hub models come from the cache when offline; other names are told apart."""

from pathlib import Path

import pytest
import torch

from litebert.errors import FolderError, RequestError
from litebert.hub import resolve
from litebert.model.model import Model
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


def test_what_the_cache_does_not_have_is_said(offline_cache: Path) -> None:
    with pytest.raises(FolderError, match=r"'someone/nothing'.*hub"):
        resolve("someone/nothing")


@pytest.mark.parametrize("name", ["./nothing", "/nothing", "a/b/c", "", "..", "~x", "a\\b"])
def test_paths_never_go_to_the_hub(name: str) -> None:
    with pytest.raises(FolderError, match=r"no folder|not a folder|config"):
        Model.from_pretrained(name)


def test_impossible_names_are_refused(offline_cache: Path) -> None:
    with pytest.raises(RequestError, match="no name of a hub model"):
        resolve("what is this?")
