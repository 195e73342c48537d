"""What tests of baselines share."""

import pytest

from tests.conftest import need


@pytest.fixture
def gensim() -> None:
    """What word2vec needs."""
    need("gensim")


@pytest.fixture(autouse=True)
def gensim_for_word2vec(request: pytest.FixtureRequest) -> None:
    """Skip the case of word2vec, and no other, where gensim is not installed."""
    if hasattr(request.node, "callspec") and "word2vec" in request.node.callspec.params.values():
        need("gensim")
