"""The machine is asked in a child, and the process is prepared before torch is loaded."""

import os
import subprocess

import pytest

from litebert import runtime


def test_no_child_where_amx_is_not_advertised(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.probe_matrix_instructions.cache_clear()
    monkeypatch.setattr(runtime, "_advertises", lambda *_: False)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a child was started"))
    assert runtime.probe_matrix_instructions()
    runtime.probe_matrix_instructions.cache_clear()


@pytest.mark.parametrize(("program", "survives"), [("pass", True), ("import os; os.kill(os.getpid(), 4)", False)])
def test_a_child_that_dies_of_an_instruction_decides(
    program: str, survives: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.probe_matrix_instructions.cache_clear()
    monkeypatch.setattr(runtime, "_advertises", lambda *_: True)
    monkeypatch.setattr(runtime, "_PROBE", program)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    runtime.prepare_process()
    assert runtime.probe_matrix_instructions() is survives
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") == (None if survives else "AVX512_CORE_BF16")
    os.environ.pop("ONEDNN_MAX_CPU_ISA", None)
    runtime.probe_matrix_instructions.cache_clear()


@pytest.mark.parametrize(("program", "pays"), [("print(2.0)", True), ("print(0.4)", False), ("1 / 0", False)])
def test_half_precision_is_chosen_only_where_it_wins_the_race(
    program: str, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_advertises", lambda *_: True)
    monkeypatch.setattr(runtime, "probe_matrix_instructions", lambda: True)
    monkeypatch.setattr(runtime, "_RACE", program)
    runtime.probe_bfloat16.cache_clear()
    assert runtime.probe_bfloat16() is pays
    runtime.probe_bfloat16.cache_clear()
