"""What runs a model: onnxruntime without torch, or torch; a module that was changed is what answers."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import litebert
from litebert.config import Head
from litebert.inference import engine
from litebert.inference.engine import Engine
from litebert.model.model import Model
from litebert.tasks.saved import SavedTask
from litebert.tasks.task import Task
from litebert.text.tokenizer import Tokenizer
from tests.conftest import need, small_config

need("onnxruntime")
ASK = """
import sys
sys.modules["torch"] = None
import json, litebert
encoder = litebert.load()
print(json.dumps([encoder.embed("a text", depth=2).tolist(), encoder.search("lunch", ["a bank", "a meal"], top=1)]))
"""


def test_the_default_encoder_answers_without_torch() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    vector, found = json.loads(done.stdout)
    np.testing.assert_allclose(vector, litebert.load().embed("a text", depth=2), atol=1e-6)
    assert found[0][0] == 1


def test_commands_that_use_an_encoder_do_not_import_torch(tmp_path: Path, small_tokenizer: Tokenizer) -> None:
    task = Task(name="mood", kind="classification", labels=("glad", "sad"), metrics=("accuracy",))
    shape = small_config(vocab_size=small_tokenizer.vocab_size, labels=task.labels)
    mood = Model(shape, "sequence-classification").save_pretrained(tmp_path / "mood", small_tokenizer)
    for name, content in SavedTask(task=task, max_length=16).as_files().items():
        (mood / name).write_text(content, encoding="utf-8")
    text = tmp_path / "text.txt"
    text.write_text("The bank is closed on Sundays.\n\nLunch is served at noon in the garden.\n", encoding="utf-8")
    refuse = "; ".join(
        f"sys.modules['{name}'] = None" for name in ("torch", "sklearn", "scipy", "matplotlib", "jinja2", "onnx")
    )
    for words in (
        ["embed", "a text"],
        ["similarity", "a cat", "a dog"],
        ["search", str(text), "a meal"],
        ["index", str(text), "--out", str(tmp_path / "index")],
        ["predict", str(mood), str(text)],
        ["classify", str(mood), "a text"],
        ["export", str(mood), "--out", str(tmp_path / "onnx")],
    ):
        code = f"import sys; {refuse}; sys.argv = ['litebert', *{words!r}]"
        call = "import litebert.cli; litebert.cli.main()"
        done = subprocess.run([sys.executable, "-c", f"{code}; {call}"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_what_training_needs_is_said_in_one_sentence() -> None:
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['litebert', 'pretrain', 'corpus']"
    call = "import litebert.cli; litebert.cli.main()"
    done = subprocess.run([sys.executable, "-c", f"{code}; {call}"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "litebert: this needs torch, which comes with what training needs: pip install 'litebert[train]'\n"
    )


def test_a_module_that_was_changed_is_what_answers() -> None:
    encoder = litebert.load()
    before = encoder.embed("a text")
    with torch.no_grad():
        np.testing.assert_allclose(encoder.embed("a text"), before, atol=0)
        for parameter in encoder.model.encoder.feed_forward.parameters():
            parameter.zero_()
    assert np.abs(encoder.embed("a text") - before).max() > 0.01


@pytest.mark.parametrize("head", ["none", "pretraining", "sentence-embedding"])
def test_vectors_of_every_head_are_the_same_on_both(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Model(small_config(), head).save_pretrained(tmp_path / "model")
    ids = np.arange(12).reshape(2, 6) + 5
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": 0 * ids}
    quick = Engine(tmp_path / "model")
    monkeypatch.setattr(engine, "has_onnx", lambda: False)
    slow = Engine(tmp_path / "model")
    for depth in (None, 2):
        np.testing.assert_allclose(quick.embed(inputs, depth), slow.embed(inputs, depth), atol=1e-5)
        for name, found in quick.run(inputs, depth).items():
            np.testing.assert_allclose(found, slow.run(inputs, depth)[name], atol=1e-5)
    assert (quick.batch_tokens, slow.batch_tokens) == (512, 1024)


def test_what_a_folder_lacks_torch_draws(tmp_path: Path) -> None:
    Model(small_config(), "none").save_pretrained(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    save_file({name: one for name, one in load_file(file).items() if not name.startswith("pooler")}, file)
    (tmp_path / "model" / "manifest.json").unlink()
    inputs = {name: np.ones((1, 4), np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    assert Engine(tmp_path / "model").run(inputs)["pooler_output"].shape == (1, 24)


def test_weights_too_large_for_a_graph_are_run_by_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Model(small_config(), "none").save_pretrained(tmp_path / "model")
    monkeypatch.setattr(engine, "LARGEST", 10)
    assert Engine(tmp_path / "model").batch_tokens == 1024
