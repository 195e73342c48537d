"""A server's application with a model of each kind, in this process."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from litebert.text.tokenizer import Tokenizer
from tests.conftest import need, small_config

KINDS = ("classification", "pairs", "regression", "tagging", "questions", "choice")


@pytest.fixture(scope="session")
def model_folders(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An encoder for vectors, one with the heads of pretraining, and a model of each kind."""
    import torch

    from litebert.model.model import Model
    from tests.tasks.small import finetune_here, make_data, make_encoder, small_run

    home = tmp_path_factory.mktemp("served")
    torch.manual_seed(0)
    size = {"vocab_size": small_tokenizer.vocab_size, "max_positions": 64, "num_layers": 2}
    vectors = small_config(**size, embedding_normalize=True, embedding_dimensions=(8, 16))
    folders = {
        "vectors": Model(vectors, "sentence-embedding").save_pretrained(home / "vectors", small_tokenizer),
        "pretrained": Model(small_config(**size), "pretraining").save_pretrained(home / "pretrained", small_tokenizer),
    }
    encoder = make_encoder(home / "encoder", small_tokenizer)
    for kind in KINDS:
        data = make_data(kind)
        finetune_here(data, home / kind, small_run(data, encoder, small_tokenizer, steps=3), small_tokenizer)
        folders[kind] = home / kind
    return folders


@pytest.fixture(scope="session")
def client(model_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of an application that serves all of them, and an index."""
    need("fastapi")
    from starlette.testclient import TestClient

    from litebert.inference.load import load
    from litebert.serve.app import create_app
    from litebert.serve.service import Service
    from litebert.serve.settings import ServeSettings

    index = tmp_path_factory.mktemp("index") / "places"
    texts = ["the river crossed the city", "three apples and a café", "nobody measured the bridge"]
    load(model_folders["vectors"]).index(texts, index)
    settings = ServeSettings(
        models={name: str(folder) for name, folder in model_folders.items()},
        indexes={"places": str(index)},
        runs=str(model_folders["classification"].parent),
        max_body=200_000,
        max_inputs=100,
        max_tokens=20_000,
    )
    with TestClient(create_app(Service(settings)), raise_server_exceptions=False) as client:
        yield client
