"""Runners: results in order from any number of workers, bounded reading ahead, and workers that die."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from litebert.corpus import runners
from litebert.corpus.runners import open_runner
from litebert.errors import LitebertError
from tests.conftest import need
from tests.corpus import runner_jobs


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_results_come_in_order(num_workers: int, count: int) -> None:
    with open_runner(num_workers, None) as runner:
        found = list(runner.map_in_order(runner_jobs.add_slowly_when_even, 100, range(count)))
    assert found == [100 + number for number in range(count)]


@pytest.mark.usefixtures("ctrl_c")
def test_a_ctrl_c_that_another_thread_takes_waits_until_a_worker_has_started() -> None:
    release = threading.Event()
    other = threading.Thread(target=release.wait)
    other.start()
    has_started = False

    def start() -> None:
        nonlocal has_started
        with runners._blocking_interrupts():
            assert other.ident is not None
            signal.pthread_kill(other.ident, signal.SIGINT)
            time.sleep(0.05)  # Python acts on it in here, if anywhere
            has_started = True

    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        release.set()
        other.join()
    assert has_started
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_only_so_many_items_are_under_way() -> None:
    num_read = 0

    def items() -> Iterator[int]:
        nonlocal num_read
        for number in range(60):
            num_read += 1
            yield number

    with open_runner(2, None) as runner:
        for num_given, _ in enumerate(runner.map_in_order(runner_jobs.add, 0, items())):
            assert num_read - num_given <= 2 * 2 + 1
    assert num_read == 60


@pytest.mark.parametrize("num_workers", [1, 2])
@pytest.mark.parametrize("error", [LitebertError, OSError, EOFError, ValueError])
def test_errors_of_workers_are_those_of_the_caller(num_workers: int, error: type[Exception]) -> None:
    with open_runner(num_workers, None) as runner, pytest.raises(error, match="seven"):
        list(runner.map_in_order(runner_jobs.fail_at_seven, error, range(20)))


def test_what_a_killed_worker_was_doing_is_done_again(tmp_path: Path) -> None:
    with open_runner(2, None) as runner:
        assert list(runner.map_in_order(runner_jobs.die_once, tmp_path, range(12))) == list(range(12))
    assert (tmp_path / "died").exists()


def test_an_item_that_kills_every_worker_is_given_up(tmp_path: Path) -> None:
    with open_runner(2, None) as runner, pytest.raises(LitebertError, match="fewer --workers, and it goes on"):
        list(runner.map_in_order(runner_jobs.die_at_three, tmp_path, range(12)))
    assert len((tmp_path / "deaths").read_text()) == runners._MOST_DEATHS


def test_items_and_results_may_be_larger_than_a_pipe() -> None:
    items = [bytes([number]) * 3_000_000 for number in range(6)]
    with open_runner(2, None) as runner:
        assert list(runner.map_in_order(runner_jobs.hold_much, 2_000_000, items)) == [it[:2_000_000] for it in items]


def test_workers_are_other_processes_with_one_thread_each_and_end_with_the_runner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with open_runner(2, None) as runner:
        found = set(runner.map_in_order(runner_jobs.tell_process, 0, range(20)))
        processes = {process for process, _ in found}
        assert os.getpid() not in processes
        assert {threads for _, threads in found} == {"1"}
        assert all(need("psutil").pid_exists(process) for process in processes)
    assert not any(need("psutil").pid_exists(process) for process in processes)
    assert os.environ["OMP_NUM_THREADS"] == "3"


SCRIPT = """
from litebert.corpus.runners import open_runner
from tests.corpus import runner_jobs

with open("began", "a") as file:
    file.write("x")
{definition}
with open_runner(2, None) as runner:
    shared = {shared}
    print(sum(runner.map_in_order({function}, shared, range(20))))
"""


def run_script(tmp_path: Path, **parts: str) -> subprocess.CompletedProcess[str]:
    """A script that does all its work when it is imported, as users write them."""
    (tmp_path / "script.py").write_text(SCRIPT.format(**{"definition": "", **parts}), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "script.py"]
    return subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_workers_do_not_run_the_users_script_again(tmp_path: Path) -> None:
    outcome = run_script(tmp_path, shared="100", function="runner_jobs.add_slowly_when_even")
    assert outcome.stdout.split() == ["2190"], outcome.stderr
    assert (tmp_path / "began").read_text() == "x"


def test_workers_that_cannot_begin_end_in_an_error_and_not_in_waiting(tmp_path: Path) -> None:
    """A function of the script itself needs the script, which begins anew in each worker and is refused there."""
    outcome = run_script(
        tmp_path,
        definition="def add(shared, number): return number",
        shared='"x" * 1_000_000',  # more than a pipe holds
        function="add",
    )
    assert outcome.returncode == 1
    assert "preparation lost" in outcome.stderr


def test_a_cluster_without_dask_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(LitebertError, match=r"pip install 'litebert\[cluster\]'"), open_runner(2, "tcp://nowhere:1"):
        pass


ABANDONED = """
import os, signal, sys
from litebert.corpus.runners import open_runner
from tests.corpus import runner_jobs

with open_runner(2, None) as runner:
    results = runner.map_in_order(runner_jobs.tell_process, 0, iter(range(1000)))
    print(*{next(results)[0] for _ in range(20)}, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_when_the_process_that_started_them_is_killed() -> None:
    # Its output ends when the last process that writes to it does; the limit only catches what hangs.
    done = subprocess.run([sys.executable, "-c", ABANDONED], capture_output=True, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split()
    assert "Traceback" not in done.stderr


def test_files_are_seen_by_workers_that_have_the_same(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a"), str(tmp_path / "b"), "a\0b"]
    (tmp_path / "a").write_bytes(b"abc")
    assert runners._look(paths) == [(3, (tmp_path / "a").stat().st_mtime_ns), None, None]

    class Client:
        def __init__(self, *answers: object) -> None:
            self.answers = answers

        def run(self, function: object, paths: list[str]) -> dict[int, object]:
            assert function is runners._look
            assert len(paths) <= 2 * runners._MOST_FILES_TO_LOOK_AT
            return dict(enumerate(self.answers))

    here = runners._look(paths)
    assert runners._OnCluster(Client(here, here)).can_read(paths)
    assert not runners._OnCluster(Client(here, [None] * 3)).can_read(paths)
    many = [str(tmp_path / "a")] * 1000
    assert runners._OnCluster(Client()).can_read(many)
