"""What tests share: small shapes, and inputs with padding and token types."""

import contextlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from litebert.config import ModelConfig
from litebert.text.tokenizer import Tokenizer
from litebert.text.vocabulary import VocabularyConfig, train_vocabulary

if TYPE_CHECKING:
    from torch import Tensor

    from litebert.corpus.corpus import Corpus
    from tests.pretraining.runs import Nursery

with contextlib.suppress(ModuleNotFoundError):
    import torch

    torch.set_num_threads(1)  # the runner already uses every core
# Examples may take as long as they like: a busy machine is no fault of the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def need(library: str) -> Any:
    """A library that does not come with the core, or a skip."""
    return pytest.importorskip(library, reason=f"needs {library}: pip install -e '.[dev]'")


def soak_count(full: int) -> int:
    """How often a long test repeats itself: `full` times, or a share of that which LITEBERT_SOAK names."""
    return max(1, round(full * float(os.environ.get("LITEBERT_SOAK", "1"))))


def small_config(**changes: Any) -> ModelConfig:
    """An encoder that runs in milliseconds and has no two sizes alike."""
    shape: dict[str, Any] = {
        "vocab_size": 97,
        "embedding_size": 12,
        "hidden_size": 24,
        "num_heads": 3,
        "intermediate_size": 40,
        "num_layers": 4,
        "max_positions": 48,
        "initializer_range": 0.2,
    }
    return ModelConfig(**{**shape, **changes})


def small_inputs(config: ModelConfig, batch: int = 3, tokens: int = 17, seed: int = 0) -> "dict[str, Tensor]":
    """Random ids with padding at the end of all rows but the first, and two token types."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, config.vocab_size, (batch, tokens), generator=generator)
    mask = torch.ones_like(ids)
    types = torch.zeros_like(ids)
    for row in range(batch):
        length = tokens - 3 * row
        mask[row, length:] = 0
        ids[row, length:] = config.pad_token_id
        types[row, length // 2 : length] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


PARTS = {
    "who": "the river|an old captain|my neighbour Anna|every student|a café|the naïve king|nobody|two sailors",
    "did": "crossed|painted|remembered|was looking for|carried away|translated|measured|gave back|believed in",
    "what": "the bridge|three apples|her father's letter|the city of light|a (small) boat|€ 5 – or £ 6|good advice",
    "korean": "저는 밥을 먹었습니다|한국어를 공부합니다|오늘 날씨가 좋아요|친구와 학교에 갔어요|영화가 정말 재미있었다",
    "chinese": "今天天气很好|我喜欢学习中文|他们在北京工作|这本书很有意思|房间不大但是很干净",
    "year": "1984|1990|1999|2000|2004",
}
FRAMES = [
    "{who} {did} {what}, and {who} {did} {what}.",
    "In {year}, {who} {did} {what}; in {year}, {year}, and {year}, {number},{number} {what}.",
    'When {who} {did} {number} of them, "{what}" was what {who} {did} - twice.',
    "{korean} {korean}. {korean}!",
    "{chinese}，{chinese}。",
]


def make_sentences(count: int, seed: int = 0) -> Iterator[str]:
    """Draw English, Korean and Chinese sentences, some with numbers; the same ones for the same seed."""
    generator = random.Random(seed)

    def fill(frame: str) -> str:
        while "{" in frame:
            before, _, rest = frame.partition("{")
            name, _, after = rest.partition("}")
            choices = PARTS[name].split("|") if name in PARTS else [str(generator.randrange(1000))]
            frame = before + generator.choice(choices) + after
        return frame

    for number in range(count):
        sentence = fill(FRAMES[number % len(FRAMES)])
        yield sentence[0].upper() + sentence[1:]


@pytest.fixture(scope="session")
def small_tokenizer() -> Tokenizer:
    """A SentencePiece tokenizer of 400 pieces."""
    return train_vocabulary(make_sentences(1000), VocabularyConfig(vocab_size=400, coverage=1.0))


@pytest.fixture(scope="session")
def small_corpus(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> "Corpus":
    """1,200 documents in four shards, a twentieth of them held out."""
    from tests.corpus.conftest import make_documents, prepare_documents

    folder = tmp_path_factory.mktemp("corpus") / "small"
    return prepare_documents(folder, make_documents(1200), small_tokenizer, shard_tokens=60_000, held_out=0.05)


@pytest.fixture(scope="session")
def small_encoder(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an encoder to begin fine-tuning with."""
    from tests.tasks.small import make_encoder

    return make_encoder(tmp_path_factory.mktemp("encoder") / "small", small_tokenizer)


@pytest.fixture(scope="session")
def nursery() -> "Nursery":
    """Where child processes come from that pretrain."""
    from tests.pretraining.runs import shared_nursery

    return shared_nursery()


@pytest.fixture
def real_data() -> Path:
    """The folder of real data that LITEBERT_DATA names (see CONTRIBUTING.md), or a skip."""
    folder = Path(os.environ.get("LITEBERT_DATA", ""))
    if not os.environ.get("LITEBERT_DATA") or not folder.is_dir():
        pytest.skip("needs real data: set LITEBERT_DATA to a folder as CONTRIBUTING.md describes it")
    return folder


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, also where the tests were started in the background, with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
