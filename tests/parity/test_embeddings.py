"""Sentence embeddings: our folders in sentence-transformers, theirs in ours, equal vectors either way."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from litebert.config import ModelConfig
from litebert.errors import FolderError
from litebert.model.hf.folder_config import MODULES
from litebert.model.model import Model
from litebert.text.tokenizer import Tokenizer
from tests.conftest import make_sentences, small_config, small_inputs
from tests.parity.peers import open_in_transformers, quiet, randomize

CONFIGS: dict[str, ModelConfig] = {
    "albert": small_config(vocab_size=400),
    "albert, of length 1, short": small_config(vocab_size=400, embedding_normalize=True, embedding_max_length=12),
    "bert": small_config(vocab_size=400, family="bert", sharing="none", embedding_size=24, activation="gelu"),
}


def make_model(config: ModelConfig) -> Model:
    model = Model(config, "sentence-embedding").eval()
    randomize(model)
    return model


def embed(model: Model, tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    """Our vectors of texts, cut at the length of the model."""
    encoded = tokenizer.encode(texts, max_length=model.config.embedding_max_length or model.config.max_positions)
    with torch.inference_mode():
        return model(torch.from_numpy(encoded.input_ids), torch.from_numpy(encoded.attention_mask)).embedding  # type: ignore[no-any-return]


def open_in_sentence_transformers(folder: Path) -> Any:
    library = pytest.importorskip("sentence_transformers")
    with quiet():
        return library.SentenceTransformer(str(folder), device="cpu")


def test_the_head_averages_real_tokens() -> None:
    config = small_config()
    model, inputs = make_model(config), small_inputs(config)
    output = model(**inputs)
    assert output.pooler_output is None
    for row, length in enumerate(inputs["attention_mask"].sum(1).tolist()):
        expected = output.last_hidden_state[row, :length].mean(0)
        torch.testing.assert_close(output.embedding[row], expected, atol=1e-6, rtol=0)
    unit = Model(config.updated(embedding_normalize=True), "sentence-embedding").eval()
    unit.load_state_dict(model.state_dict())
    expected = torch.nn.functional.normalize(output.embedding, dim=-1)
    torch.testing.assert_close(unit(**inputs).embedding, expected, atol=1e-6, rtol=0)
    assert not model(inputs["input_ids"], torch.zeros_like(inputs["input_ids"])).embedding.any()


@pytest.mark.parametrize("name", CONFIGS)
def test_folders_open_in_sentence_transformers(name: str, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    ours = make_model(CONFIGS[name])
    ours.save_pretrained(tmp_path / "ours", small_tokenizer)
    theirs = open_in_sentence_transformers(tmp_path / "ours")
    texts = list(make_sentences(20))
    expected = torch.from_numpy(theirs.encode(texts))
    assert (embed(ours, small_tokenizer, texts) - expected).abs().max() <= 1e-5

    with quiet():
        theirs.save_pretrained(str(tmp_path / "theirs"))
    again = Model.from_pretrained(tmp_path / "theirs")
    assert (again.head, again.config, again.fresh_tensors) == ("sentence-embedding", ours.config, ())
    assert (embed(again, small_tokenizer, texts) - expected).abs().max() <= 1e-5


@pytest.mark.parametrize("name", CONFIGS)
def test_folders_open_here_and_in_transformers(name: str, tmp_path: Path) -> None:
    ours = make_model(CONFIGS[name])
    ours.save_pretrained(tmp_path)
    inputs = small_inputs(ours.config)
    again, theirs = Model.from_pretrained(tmp_path), open_in_transformers(tmp_path)
    assert (again.head, again.config) == ("sentence-embedding", ours.config)
    assert Model.read_config(tmp_path) == ours.config
    with torch.inference_mode():
        states = ours(**inputs).last_hidden_state
        difference = (states - theirs(**inputs).last_hidden_state)[inputs["attention_mask"].bool()]
        assert difference.abs().max() <= 1e-5
        assert torch.equal(again(**inputs).embedding, ours(**inputs).embedding)


def test_another_head_takes_the_encoder_alone(tmp_path: Path) -> None:
    ours = make_model(CONFIGS["albert, of length 1, short"])
    ours.save_pretrained(tmp_path)
    plain = Model.from_pretrained(tmp_path, "sequence-classification")
    assert not plain.config.embedding_normalize
    assert plain.config.embedding_max_length is None
    assert torch.equal(plain.encoder.embeddings.words.weight, ours.encoder.embeddings.words.weight)
    Model(ours.config.updated(embedding_normalize=False, embedding_max_length=None)).save_pretrained(tmp_path)
    assert Model.from_pretrained(tmp_path).head == "none"
    assert not (tmp_path / MODULES).exists()


def test_saving_again_over_a_folder(tmp_path: Path) -> None:
    make_model(CONFIGS["albert"]).save_pretrained(tmp_path)
    ours = make_model(CONFIGS["albert, of length 1, short"])
    ours.save_pretrained(tmp_path)
    assert Model.from_pretrained(tmp_path).config == ours.config
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    with pytest.raises(FolderError, match=r"1_Pooling.*manifest"):
        Model.from_pretrained(tmp_path)


def test_own_form_keeps_the_settings(tmp_path: Path) -> None:
    config = small_config(sharing="attention", embedding_normalize=True)
    with pytest.warns(UserWarning, match="own form"):
        make_model(config).save_pretrained(tmp_path)
    again = Model.from_pretrained(tmp_path)
    assert (again.head, again.config) == ("sentence-embedding", config)


def test_what_other_configurations_write_stays() -> None:
    assert not [name for name in small_config().model_dump() if name.startswith("embedding_") and name[10:] != "size"]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "cls", "embedding_dimension": 24}),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}),
        ("sentence_bert_config.json", {"max_seq_length": 9, "do_lower_case": True}),
        ("config_sentence_transformers.json", {"prompts": {"a": "query: "}, "default_prompt_name": "a"}),
    ],
)
def test_what_the_head_cannot_do_is_said(file: str, content: dict[str, Any], tmp_path: Path) -> None:
    make_model(CONFIGS["albert"]).save_pretrained(tmp_path)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / file).write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="the encoder alone"):
        assert Model.from_pretrained(tmp_path).head == "none"


@pytest.mark.parametrize(
    "content", ["{}", "[1]", "nonsense", '[{"type": "x.Pooling"}]', '[{"type": "T", "path": "../x"}]']
)
def test_a_damaged_list_of_modules_is_named(content: str, tmp_path: Path) -> None:
    make_model(CONFIGS["albert"]).save_pretrained(tmp_path)
    (tmp_path / "manifest.json").unlink()
    (tmp_path / MODULES).write_text(content)
    if content == "{}":
        with pytest.warns(UserWarning, match="the encoder alone"):
            Model.from_pretrained(tmp_path)
    else:
        with pytest.raises(FolderError, match=r"modules\.json"):
            Model.from_pretrained(tmp_path)


def test_minilm(real_data: Path) -> None:
    """all-MiniLM-L6-v2: states as in transformers, vectors as in sentence-transformers, on real sentences."""
    folder = real_data / "weights" / "all-MiniLM-L6-v2"
    if not folder.is_dir():
        pytest.skip("needs weights/all-MiniLM-L6-v2 in LITEBERT_DATA")
    import transformers

    lines = (real_data / "glue" / "STS-B" / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:101]
    texts = [cell for line in lines for cell in line.split("\t")[7:9]]
    model, tokenizer = Model.from_pretrained(folder), Tokenizer.from_pretrained(folder)
    assert model.head == "sentence-embedding"
    assert (model.config.embedding_normalize, model.config.embedding_max_length) == (True, 256)
    with quiet():
        theirs = transformers.AutoModel.from_pretrained(folder).eval()
        their_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = their_tokenizer(texts, padding=True, return_tensors="pt")
    assert torch.equal(torch.from_numpy(tokenizer.encode(texts).input_ids), inputs["input_ids"])
    with torch.inference_mode():
        found, expected = model(**inputs).last_hidden_state, theirs(**inputs).last_hidden_state
    assert (found - expected)[inputs["attention_mask"].bool()].abs().max() <= 1e-5
    library = open_in_sentence_transformers(folder)
    long = [*texts, " ".join(texts)]  # beyond 256 tokens
    assert (embed(model, tokenizer, long) - torch.from_numpy(library.encode(long))).abs().max() <= 1e-5
