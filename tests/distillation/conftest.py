"""Two teachers, and another tokenizer than theirs."""

from pathlib import Path

import pytest

from litebert.corpus.corpus import Corpus
from litebert.text.tokenizer import Tokenizer
from litebert.text.vocabulary import VocabularyConfig, train_vocabulary
from tests.conftest import make_sentences
from tests.corpus.conftest import make_documents, prepare_documents


@pytest.fixture(scope="session")
def bert(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of three layers."""
    from tests.distillation.runs import BERT, make_teacher

    return make_teacher(tmp_path_factory.mktemp("teachers") / "bert", small_tokenizer, num_layers=3, **BERT)


@pytest.fixture(scope="session")
def albert(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ALBERT that runs its layer twice."""
    from tests.distillation.runs import make_teacher

    return make_teacher(tmp_path_factory.mktemp("teachers") / "albert", small_tokenizer, seed=1, num_layers=2)


@pytest.fixture(scope="session")
def other_tokenizer() -> Tokenizer:
    """Fewer pieces than the teachers' tokenizer has, and made of other text."""
    return train_vocabulary(make_sentences(300, seed=1), VocabularyConfig(vocab_size=300, coverage=1.0))


@pytest.fixture(scope="session")
def other_corpus(other_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Text in other word pieces than the teachers'."""
    folder = tmp_path_factory.mktemp("corpus") / "other"
    return prepare_documents(folder, make_documents(400), other_tokenizer, shard_tokens=60_000, held_out=0.1)
