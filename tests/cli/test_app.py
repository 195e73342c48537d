"""The command line as a user meets it, in a process of its own."""

import json
import re
import subprocess
import sys

import pytest

from tests.commands import run, run_fresh


def test_help_loads_the_command_line_and_nothing_else() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "litebert", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = re.findall(r"^import time:.*\| +([\w.]+)$", done.stderr, re.M)
    assert {"litebert.cli", "typer"} <= set(loaded)
    assert len(loaded) < 500  # torch alone has 2,000; most of these are typer's and rich's
    rooms = {name.split(".")[1] for name in loaded if name.startswith("litebert.")}
    assert rooms <= {"cli", "errors", "folders", "hub", "quantities"}


@pytest.mark.parametrize(
    "command",
    ["models", "plan", "prepare", "lint", *(f"tokenizer {name}" for name in ("train", "inspect", "encode", "decode"))],
)
def test_every_command_shows_an_example(command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.returncode == 0
    assert "Example:" in result.stdout
    assert f"litebert {command}" in result.stdout


def test_models_as_json() -> None:
    rows = {row["name"]: row for row in json.loads(run("models", "--json").stdout)}
    base = rows["albert-base"]
    assert base["encoder_parameters"] == 11_683_584
    assert base["pretraining_parameters"] == 11_813_810
    assert (base["layers"], base["hidden_size"], base["embedding_size"], base["sharing"]) == (12, 768, 128, "all")
    assert rows["albert-xxlarge"]["pretraining_parameters"] == 223_158_450
    assert len(rows) == 33


def test_models_as_a_table_cuts_nothing_off() -> None:
    result = run("models")
    assert "…" not in result.stdout
    assert "11,683,584" in result.stdout
    assert "albert-base-e768-attention" in result.stdout


def test_plan_without_measuring() -> None:
    plan = json.loads(run("plan", "albert-xxlarge", "--batch", "8", "--length", "512", "--no-measure", "--json").stdout)
    assert plan["tokens_per_second"] is None
    assert plan["memory"]["weights"] == 4 * 223_158_450
    assert plan["memory_recomputing"]["activations"] < plan["memory"]["activations"] / 3


def test_plan_measures_this_machine() -> None:
    plan = json.loads(run("plan", "albert-mini", "--batch", "2", "--length", "32", "--tokens", "1k", "--json").stdout)
    assert plan["tokens_per_second"] > 0
    assert plan["seconds"] == pytest.approx(1000 / plan["tokens_per_second"])


def test_plan_for_many_workers() -> None:
    call = ("plan", "--workers", "64", "--link", "25Gbit", "--rate", "50T")
    plan = json.loads(run(*call, "--json").stdout)
    assert (plan["workers"], plan["link_bits"], plan["rate"], plan["measured"]) == (64, 25e9, 5e13, False)
    rows = {row["name"]: row for row in plan["rows"]}
    assert rows["albert-large"]["gradient_bytes"] == 4 * rows["albert-large"]["parameters"] == 4 * 17_847_474
    assert rows["albert-large"]["speed_over_bert"] > 1 == rows["bert-large"]["speed_over_bert"]
    assert rows["albert-large"]["tokens_per_second"] == pytest.approx(4096 * 512 / rows["albert-large"]["seconds"])
    shown = run(*call).stdout
    for words in ("64 workers at 25Gbit/s", "4,096 × 512", "albert-xxlarge", "waits for link"):
        assert words in shown
    one = json.loads(run("plan", "albert-base", *call[1:], "--batch", "128", "--length", "64", "--json").stdout)
    assert [row["name"] for row in one["rows"]] == ["albert-base", "bert-base"]
    assert (one["batch"], one["length"]) == (128, 64)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["plan", "albert-huge"], 1, "no preset 'albert-huge'"),
        (["plan", "albert-bse"], 1, "did you mean albert-base?"),
        (["plan", "albert-base", "--length", "600"], 1, "at most 512 tokens"),
        (["plan", "albert-base", "--tokens", "many"], 1, "write it like"),
        (["plan", "--budget", "soon", "--corpus", "1M"], 1, "no duration"),
        (["plan", "--budget", "1h", "--corpus", "lots"], 1, "write it like"),
        (["plan"], 2, "name a preset"),
        (["plan", "--budget", "1h"], 2, "--corpus"),
        (["plan", "albert-mini", "--budget", "1h", "--corpus", "1M"], 2, "leave them out"),
        (["plan", "albert-base", "--tokens", "9" * 400], 1, "write it like"),
        (["plan", "albert-base", "--batch", "0"], 2, "batch"),
        (["plan", "--workers", "64", "--link", "25"], 1, "write it like 300Mbit"),
        (["plan", "--workers", "0", "--link", "25Gbit"], 1, "at least 1 worker"),
        (["plan", "--workers", "7", "--link", "25Gbit"], 1, "cannot be divided among 7 workers"),
        (["plan", "--workers", "8", "--link", "25Gbit", "--rate", "fast"], 1, "write it like 300G"),
        (["plan", "albert-huge", "--workers", "8", "--link", "25Gbit"], 1, "no preset 'albert-huge'"),
        (["plan", "--workers", "8"], 2, "belong together"),
        (["plan", "--rate", "50T"], 2, "belong together"),
        (["plan", "--workers", "8", "--link", "25Gbit", "--no-measure"], 2, "needs --rate"),
        (["plan", "--workers", "8", "--link", "25Gbit", "--tokens", "1M"], 2, "leave out --tokens"),
        (["fly"], 2, "No such command"),
    ],
)
def test_a_wrong_call_is_one_sentence(arguments: list[str], code: int, words: str) -> None:
    result = run(*arguments)
    assert result.returncode == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    if code == 1:
        assert result.stderr.startswith("litebert: ")
        assert len(result.stderr.strip().splitlines()) == 1


def test_debug_shows_the_traceback() -> None:
    assert "Traceback" in run_fresh("--debug", "plan", "albert-huge").stderr
