"""A run folder: its files by what they are for, and folders of before."""

import json
from pathlib import Path

from litebert.corpus.corpus import Corpus
from litebert.training.run_folder import RunFolder, name_run, read_kind, read_run
from litebert.training.state import CheckpointStore
from tests.pretraining.runs import assert_same_end, pretrain_here, tiny_run

OLD = {
    "num_masked": "num_words",
    "mlm_loss": "words_loss",
    "mlm_accuracy": "words_accuracy",
    "sop_loss": "sentence_loss",
    "sop_accuracy": "sentence_accuracy",
    "message": "words",
    "metrics": "scores",
    "metric": "score",
    "micro_batch_size": "rows_at_once",
}
NEW = ("startup", "reserve", "evaluating")


def make_old(content: object) -> object:
    """The same content as an earlier version wrote it."""
    if isinstance(content, dict):
        return {OLD.get(name, name): make_old(value) for name, value in content.items() if name not in NEW}
    return content


def write_as_before(out: Path) -> None:
    """Rewrite all that a run has said about itself; the hashes of checkpoints are left to be wrong."""
    files = RunFolder(out)
    files.run_file.write_text(json.dumps(make_old(json.loads(files.run_file.read_text()))))
    lines = files.metrics_file.read_text().splitlines()
    files.metrics_file.write_text("".join(json.dumps(make_old(json.loads(line))) + "\n" for line in lines))
    for checkpoint in CheckpointStore(files.checkpoints, 1).all():
        path = checkpoint.folder / "state" / "state.json"
        path.write_text(json.dumps(make_old(json.loads(path.read_text()))))
        manifest = checkpoint.folder / "state" / "manifest.json"
        content = json.loads(manifest.read_text())
        content["files"] = {name: entry for name, entry in content["files"].items() if name != path.name}
        manifest.write_text(json.dumps(content))


def test_a_run_of_before_is_read_and_goes_on(small_corpus: Corpus, tmp_path: Path) -> None:
    expected, out = tmp_path / "expected", tmp_path / "run"
    config = tiny_run(log_steps=4, save_steps=None)
    pretrain_here(small_corpus, expected, config)

    class CrashError(Exception):
        pass

    def crash(event: object) -> None:
        if event.step == 15:  # type: ignore[attr-defined]
            raise CrashError

    try:
        pretrain_here(small_corpus, out, config, on_step=crash)
    except CrashError:
        write_as_before(out)
    result = pretrain_here(small_corpus, out, config, resume=True)
    assert (result.status, result.baselines["num_masked"] > 0) == ("finished", True)
    assert_same_end_by_today(out, expected)


def assert_same_end_by_today(out: Path, expected: Path) -> None:
    """The same end, and the same run as a report reads it."""
    one, other = (read_run(folder, "pretraining") for folder in (out, expected))
    assert [row["mlm_accuracy"] for row in one.evaluations] == [row["mlm_accuracy"] for row in other.evaluations]
    assert [row["mlm_loss"] for row in one.steps] == [row["mlm_loss"] for row in other.steps]
    assert all(event["message"] for event in one.events)
    lines = [json.loads(line) for line in RunFolder(out).metrics_file.read_text().splitlines()]
    names = {old: new for new, old in OLD.items()}
    renamed = [json.dumps({names.get(name, name): value for name, value in line.items()}) for line in lines]
    RunFolder(out).metrics_file.write_text("\n".join(renamed) + "\n")
    assert_same_end(out, expected)


def test_the_files_of_a_run(small_corpus: Corpus, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    assert not run.exists
    result = pretrain_here(small_corpus, run.path, tiny_run(steps=1))
    assert run.exists
    assert run.is_finished
    assert result.model == run.model
    assert "finished at step 1" in repr(result)
    assert read_kind(run.path) == "pretraining"
    assert name_run(run.path) == tmp_path.name
    for path in (run.run_file, run.metrics_file, run.checkpoints, run.model):
        assert path.exists()
    for number in (10, 2):
        run.seed(number).path.mkdir()
    assert [each.path.name for each in run.seeds()] == ["seed-2", "seed-10"]
