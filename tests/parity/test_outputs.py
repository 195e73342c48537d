"""Our folders in transformers and theirs in ours: outputs within 1e-5, and the same bytes after a round trip."""

from pathlib import Path

import pytest
import torch

from litebert.config import Head, ModelConfig
from litebert.model.model import Model
from litebert.presets import PRESETS
from tests.conftest import need, small_config, small_inputs
from tests.parity.peers import (
    SHARED_HEADS,
    largest_difference,
    open_in_transformers,
    randomize,
    save_with_transformers,
)

SMALL: dict[str, ModelConfig] = {
    "albert": small_config(labels=("no", "maybe", "yes")),
    "albert without sharing": small_config(sharing="none"),
    "albert in groups": small_config(sharing="groups", num_groups=2),
    "albert with inner layers": small_config(sharing="groups", num_groups=2, num_inner_layers=2),
    "albert with E = H": small_config(embedding_size=24),
    "albert with E = H and a projection": small_config(embedding_size=24, project_square_embeddings=True),
    "bert": small_config(family="bert", sharing="none", embedding_size=24, activation="gelu"),
}


def inputs_for(config: ModelConfig, head: Head, batch: int = 3, tokens: int = 17) -> dict[str, torch.Tensor]:
    inputs = small_inputs(config, batch, tokens)
    if head == "multiple-choice":
        inputs = {name: torch.stack([x, x.flip(0), x], dim=1) for name, x in inputs.items()}
    return inputs


def round_trip(config: ModelConfig, head: Head, folder: Path, batch: int, tokens: int, deviation: float) -> None:
    ours = Model(config, head)
    randomize(ours, deviation=deviation)
    inputs = inputs_for(config, head, batch, tokens)
    ours.save_pretrained(folder / "ours")
    theirs = open_in_transformers(folder / "ours")
    assert largest_difference(ours, theirs, head, inputs) <= 1e-5

    save_with_transformers(theirs, folder / "theirs")
    again = Model.from_pretrained(folder / "theirs")
    assert (again.head, again.fresh_tensors) == (head, ())
    before, after = ours.state_dict(), again.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)

    randomize(theirs, seed=1, deviation=deviation)  # weights that were never ours
    save_with_transformers(theirs, folder / "changed")
    assert largest_difference(Model.from_pretrained(folder / "changed"), theirs, head, inputs) <= 1e-5


@pytest.mark.parametrize("head", SHARED_HEADS)
@pytest.mark.parametrize("name", SMALL)
def test_small(name: str, head: Head, tmp_path: Path) -> None:
    round_trip(SMALL[name], head, tmp_path, batch=3, tokens=17, deviation=0.1)


@pytest.mark.parametrize(
    "head", [head if head == "pretraining" else pytest.param(head, marks=pytest.mark.soak) for head in SHARED_HEADS]
)
@pytest.mark.parametrize("preset", ["albert-base", pytest.param("bert-base", marks=pytest.mark.soak)])
def test_base_size(preset: str, head: Head, tmp_path: Path) -> None:
    round_trip(PRESETS[preset].config, head, tmp_path, batch=2, tokens=40, deviation=0.003)


@pytest.mark.soak
@pytest.mark.parametrize("head", SHARED_HEADS)
@pytest.mark.parametrize("preset", ["albert-large", "bert-large", "albert-base-e768-all", "albert-base-e128-none"])
def test_other_full_sizes(preset: str, head: Head, tmp_path: Path) -> None:
    round_trip(PRESETS[preset].config, head, tmp_path, batch=2, tokens=130, deviation=0.003)


@pytest.mark.parametrize(
    "config",
    [
        small_config(sharing="attention"),
        small_config(sharing="ffn"),
        small_config(sharing="groups", num_layers=18, num_groups=14),
        small_config(family="bert", sharing="all", embedding_size=24, activation="gelu"),
    ],
    ids=["attention", "ffn", "misrouted groups", "shared bert"],
)
def test_expanded_sharing_opens_in_transformers(config: ModelConfig, tmp_path: Path) -> None:
    ours = Model(config, "pretraining")
    randomize(ours)
    with pytest.warns(UserWarning, match="written out layer by layer"):
        ours.save_pretrained(tmp_path, expand_sharing=True)
    theirs = open_in_transformers(tmp_path)
    assert largest_difference(ours, theirs, "pretraining", small_inputs(config)) <= 1e-5


def test_labels_travel(tmp_path: Path) -> None:
    config = SMALL["albert"].updated(problem_type="single_label_classification")
    Model(config, "sequence-classification").save_pretrained(tmp_path / "ours")
    theirs = open_in_transformers(tmp_path / "ours")
    assert theirs.config.id2label == {0: "no", 1: "maybe", 2: "yes"}
    save_with_transformers(theirs, tmp_path / "theirs")
    assert Model.from_pretrained(tmp_path / "theirs").config == config


def test_dropout_settings_and_ids_travel(tmp_path: Path) -> None:
    config = small_config(hidden_dropout=0.2, attention_dropout=0.3, classifier_dropout=0.4, pad_token_id=3)
    config = config.updated(bos_token_id=None, eos_token_id=7, layer_norm_eps=1e-6)
    Model(config).save_pretrained(tmp_path / "ours")
    save_with_transformers(open_in_transformers(tmp_path / "ours"), tmp_path / "theirs")
    assert Model.from_pretrained(tmp_path / "theirs").config == config


def test_the_encoder_of_an_answerability_model_opens(tmp_path: Path) -> None:
    transformers = need("transformers")

    config = small_config()
    ours = Model(config, "answerable-question-answering")
    randomize(ours)
    with pytest.warns(UserWarning, match="no head with answerability"):
        ours.save_pretrained(tmp_path)
    theirs = transformers.AlbertForMaskedLM.from_pretrained(tmp_path).albert.eval()
    inputs = small_inputs(config)
    with torch.inference_mode():
        difference = ours.encoder(**inputs) - theirs(**inputs).last_hidden_state
    assert difference[inputs["attention_mask"].bool()].abs().max() <= 1e-5
