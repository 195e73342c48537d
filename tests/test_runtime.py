"""The machine is probed in a child process, and the process is prepared before torch is loaded."""

import os
import subprocess
from pathlib import Path

import pytest

from litebert import runtime


@pytest.fixture(autouse=True)
def cache_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the outputs of probes are kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "litebert" / "machine.json"


def test_no_child_where_amx_is_not_advertised(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.probe_matrix_instructions.cache_clear()
    monkeypatch.setattr(runtime, "advertises", lambda *_: False)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a child was started"))
    assert runtime.probe_matrix_instructions()
    runtime.probe_matrix_instructions.cache_clear()


@pytest.mark.parametrize(("program", "survives"), [("pass", True), ("import os; os.kill(os.getpid(), 4)", False)])
def test_a_child_that_dies_of_an_instruction_decides(
    program: str, survives: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.probe_matrix_instructions.cache_clear()
    monkeypatch.setattr(runtime, "advertises", lambda *_: True)
    monkeypatch.setattr(runtime, "_PROBE", program)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    runtime.prepare_process()
    assert runtime.probe_matrix_instructions() is survives
    assert os.environ.get("ONEDNN_MAX_CPU_ISA") == (None if survives else "AVX512_CORE_BF16")
    os.environ.pop("ONEDNN_MAX_CPU_ISA", None)
    runtime.probe_matrix_instructions.cache_clear()


@pytest.mark.parametrize(("program", "pays"), [("print(2.0)", True), ("print(0.4)", False), ("1 / 0", False)])
def test_half_precision_is_chosen_only_where_it_is_faster(
    program: str, pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "advertises", lambda *_: True)
    monkeypatch.setattr(runtime, "probe_matrix_instructions", lambda: True)
    monkeypatch.setattr(runtime, "_SPEED_PROBE", program)
    runtime.probe_bfloat16.cache_clear()
    assert runtime.probe_bfloat16() is pays
    runtime.probe_bfloat16.cache_clear()


@pytest.mark.skipif(not Path("/proc/sys/kernel/random/boot_id").exists(), reason="needs Linux")
def test_a_probe_runs_once_for_all_processes(cache_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    program = f"open({str(log)!r}, 'a').write('x'); print('said')"

    def run(program: str = program) -> str | None:
        return runtime.run_in_child(program, dict(os.environ))

    assert [run(), run(), run("1 / 0"), run("1 / 0"), run()] == ["said", "said", None, None, "said"]
    assert log.read_text() == "x"
    monkeypatch.setattr(runtime, "_identify_machine", lambda: "another machine")
    assert [run(), run()] == ["said", "said"]
    assert log.read_text() == "xx"
    for damage in ("", "[]", '{"machine": "another machine"}', '{"machine": "another machine", "answers": 3}'):
        cache_file.write_text(damage)
        assert run() == "said"
    monkeypatch.setattr(runtime, "_identify_machine", lambda: None)
    cache_file.unlink()
    assert run() == "said"
    assert not cache_file.exists()


def test_a_probe_runs_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert runtime.run_in_child("print(1)", dict(os.environ)) == "1"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # nobody knows where that is
    assert runtime.run_in_child("print(1)", dict(os.environ)) == "1"
    assert not Path("~").exists()
