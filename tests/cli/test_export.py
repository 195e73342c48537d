"""Export on the command line."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import litebert
from litebert.inference import export as exporting
from tests.commands import fails, run_here
from tests.conftest import need

need("onnx")


def test_a_user_exports_an_encoder(small_encoder: Path, tmp_path: Path) -> None:
    done = run_here("export", small_encoder, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "its outputs differ from the model's by at most" in done.stdout
    assert {"model.onnx", "tokenizer.json", "config.json"} <= {path.name for path in (tmp_path / "out").iterdir()}
    said = run_here("export", small_encoder, "--out", tmp_path / "out", "--depth", "1", "--json")
    about = json.loads(said.stdout)
    assert about["file"] == str(tmp_path / "out" / "model.onnx")
    assert about["bytes"] == (tmp_path / "out" / "model.onnx").stat().st_size


def test_what_is_refused(small_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ("--out", tmp_path / "out")
    assert "depth must be between 1 and" in fails("export", small_encoder, "--depth", "99", *out)
    assert "nowhere" in fails("export", tmp_path / "nowhere", *out)
    one = litebert.load(small_encoder)
    monkeypatch.setattr(exporting, "load", lambda name: replace(one, members=one.members * 2))
    assert "an ensemble of 2 models" in fails("export", small_encoder, *out)
    assert not (tmp_path / "out").exists()
