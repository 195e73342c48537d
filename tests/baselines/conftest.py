"""What tests of comparisons share."""

from pathlib import Path

import pytest

from litebert.text.tokenizer import Tokenizer
from tests.tasks.small import make_encoder


@pytest.fixture(scope="session")
def small_encoder(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an encoder to begin with."""
    return make_encoder(tmp_path_factory.mktemp("encoder") / "small", small_tokenizer)
