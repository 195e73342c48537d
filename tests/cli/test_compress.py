"""Compression on the command line, as a user goes it."""

import json
from pathlib import Path

import pytest

from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer
from tests.commands import fails, run_here
from tests.corpus.conftest import make_documents, write_documents
from tests.distillation.runs import BERT, make_teacher


@pytest.fixture(scope="module")
def original(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT."""
    return make_teacher(tmp_path_factory.mktemp("original") / "bert", small_tokenizer, num_layers=2, **BERT)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of text."""
    return write_documents(tmp_path_factory.mktemp("text") / "text.jsonl", make_documents(200))


def test_from_a_bert_to_an_albert_in_eight_bits(original: Path, text: Path, tmp_path: Path) -> None:
    shared, small = tmp_path / "shared", tmp_path / "small"
    done = run_here("compress", original, "--method", "share", "--text", text, "-o", shared)
    assert done.exit_code == 0, done.output
    assert "2 layers share 1 block" in done.stdout
    assert f"Next:  litebert similarity 'a text' 'another one' --model {shared}" in done.stdout
    said = run_here("compress", shared, "--method", "quantize", "--text", text, "-o", small, "--json")
    assert said.exit_code == 0, said.output
    about = json.loads(said.stdout)
    assert (about["method"], about["status"], about["opens_in_transformers"]) == ("quantize", "finished", False)
    assert about["bytes"]["after"] < about["bytes"]["before"]
    assert about["agreement"] > 0.9
    asked = run_here("similarity", "the river", "an old captain", "nobody", "--model", small, "--json")
    assert asked.exit_code == 0, asked.output
    assert len(json.loads(asked.stdout)) == 2


def test_pruned_heads_are_healed_and_said_to_be_litebert_s_own(original: Path, text: Path, tmp_path: Path) -> None:
    few = ("--set", "train.batch_size=4", "--set", "held_out_rows=32")
    how = ("--method", "prune", "--keep", 0.5, "--keep-heads", 0.34, "--text", text, "--steps", 2, *few)
    done = run_here("compress", original, *how, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "20 of 40 feed-forward units and 1 of 3 attention heads kept" in done.stdout
    assert "transformers cannot open it: it is in litebert's own form." in done.stdout
    config = Model.read_config(tmp_path / "out")
    assert (config.intermediate_size, config.num_heads, config.head_size) == (20, 1, 8)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--method", "melt"), "there is no method 'melt'"),
        (("--method", "quantize", "--heal", "10m"), "cannot be healed"),
        (("--method", "low-rank", "--embedding-size", 24), "below the word table's size"),
        (("--method", "share", "--blocks", 0), "--blocks"),
        ((), "--method"),
    ],
)
def test_wrong_calls_are_one_sentence(arguments: tuple[object, ...], said: str, original: Path, tmp_path: Path) -> None:
    assert said in fails("compress", original, *arguments, "-o", tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_help_shows_examples() -> None:
    shown = run_here("compress", "--help").output
    for said in ("share", "low-rank", "prune", "distill", "quantize", "litebert compress my-bert"):
        assert said in shown
