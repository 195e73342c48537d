"""The Python API: tables in memory, settings, metrics that decide, and results that say what came out."""

import signal
from pathlib import Path
from typing import Any

import pytest

import litebert
import litebert.training.job
from litebert.errors import RequestError
from litebert.text.tokenizer import Tokenizer
from tests.conftest import need
from tests.tasks.small import make_encoder, make_examples

SHORT: dict[str, Any] = {"steps": 6, "batch": 8, "max_length": 32, "report": False}


@pytest.fixture(scope="module")
def encoder(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("api") / "encoder", small_tokenizer)


@pytest.fixture
def rows() -> list[dict[str, str]]:
    examples: Any = make_examples("classification", 60, seed=1)
    return [{"review": example.text, "where": example.label} for example in examples]


def test_a_list_of_dictionaries(encoder: Path, rows: list[dict[str, str]], tmp_path: Path) -> None:
    run = litebert.finetune(rows, text="review", label="where", model=encoder, out=tmp_path / "run", **SHORT)
    assert run.status == "finished"
    assert run.step == 6
    assert run.splits["dev"] == run.metrics
    assert repr(run).startswith("<FinetuneResult")
    answer = run.predict("two sailors crossed the bridge.")
    assert answer == litebert.load(tmp_path / "run").classify("two sailors crossed the bridge.")
    assert run.predict([{"review": rows[0]["review"]}])[0].label in ("ashore", "at sea")


def test_a_data_frame_and_a_dataset_give_the_same_run(
    encoder: Path, rows: list[dict[str, str]], tmp_path: Path
) -> None:
    pandas, datasets = need("pandas"), need("datasets")
    tables = {"list": rows, "frame": pandas.DataFrame(rows), "dataset": datasets.Dataset.from_list(rows)}
    runs = [
        litebert.finetune(table, text="review", label="where", model=encoder, out=tmp_path / name, **SHORT)
        for name, table in tables.items()
    ]
    weights = {(run.model / "model.safetensors").read_bytes() for run in runs}
    assert len(weights) == 1


def test_fewer_layers_of_an_encoder(encoder: Path, rows: list[dict[str, str]], tmp_path: Path) -> None:
    columns = {"text": "review", "label": "where"}
    run = litebert.finetune(rows, **columns, model=encoder, depth=1, out=tmp_path / "run", **SHORT)
    assert litebert.Model.read_config(run.model).num_layers == 1
    assert run.predict("two sailors crossed the bridge.").label in ("ashore", "at sea")
    resumed = litebert.finetune(rows, **columns, model=encoder, depth=1, out=tmp_path / "run", resume=True, **SHORT)
    assert resumed.metrics == run.metrics
    with pytest.raises(RequestError, match="depth must be between 1 and 2"):
        litebert.finetune(rows, **columns, model=encoder, depth=3, out=tmp_path / "other", **SHORT)
    settings = {"model": {"num_layers": 2}}
    with pytest.raises(RequestError, match="--depth says 1 layers, the settings 2"):
        litebert.finetune(rows, **columns, model=encoder, depth=1, config=settings, out=tmp_path / "other", **SHORT)


def test_ctrl_c_stops_the_script_and_not_only_the_run(
    encoder: Path, rows: list[dict[str, str]], tmp_path: Path
) -> None:
    def stop(event: litebert.training.job.ProgressEvent) -> None:
        if event.step == 3:
            signal.raise_signal(signal.SIGINT)

    how: dict[str, Any] = {"text": "review", "label": "where", "model": encoder, "out": tmp_path / "run", **SHORT}
    with pytest.raises(KeyboardInterrupt, match="saved: the same call with resume=True goes on") as interruption:
        litebert.finetune(rows, on_step=stop, **how)
    assert isinstance(interruption.value, litebert.Interrupted)
    assert (interruption.value.result.status, interruption.value.result.step) == ("interrupted", 4)  # it ends a step
    assert litebert.finetune(rows, resume=True, **how).step == 6


def test_the_metric_that_decides_and_balanced_classes(
    encoder: Path, rows: list[dict[str, str]], tmp_path: Path
) -> None:
    settings = {"metric": "macro_f1", "balanced": True, "set": ["train.optim.lr=1e-3"], **SHORT}
    run = litebert.finetune(rows, text="review", label="where", model=encoder, out=tmp_path / "run", **settings)
    assert litebert.load(run.folder).task.metric == "macro_f1"
    about = (run.folder / "run.json").read_text(encoding="utf-8")
    assert '"class_weights": [' in about
    assert '"lr": 0.001' in about


def test_evaluate_takes_a_run_and_a_file(encoder: Path, rows: list[dict[str, str]], tmp_path: Path) -> None:
    file = tmp_path / "reviews.tsv"
    file.write_text("\n".join(["review\twhere", *("\t".join(row.values()) for row in rows)]), encoding="utf-8")
    run = litebert.finetune(file, text="review", label="where", model=encoder, out=tmp_path / "run", **SHORT)
    metrics = litebert.evaluate(run.folder, file)
    assert metrics.keys() == run.metrics.keys()
    assert metrics == litebert.evaluate(litebert.load(run.folder), file)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epochs": 1.0}, "both say how long to train"),
        ({"kind": "poetry"}, "there is no kind of task 'poetry'"),
        ({"metric": "beauty"}, "'beauty' is no metric"),
        ({"set": ["train.nonsense=1"]}, "there is no setting train.nonsense"),
        ({"plain_head": True}, "may have no answer"),
        ({"label": "stars"}, "'stars'"),
    ],
)
def test_wrong_calls_are_one_sentence(
    settings: dict[str, Any], said: str, encoder: Path, rows: list[dict[str, str]], tmp_path: Path
) -> None:
    call = {"text": "review", "label": "where", "model": encoder, "out": tmp_path / "run", **SHORT, **settings}
    with pytest.raises(litebert.LitebertError, match=said) as caught:
        litebert.finetune(rows, **call)
    assert "\n" not in str(caught.value)


def test_a_model_that_is_not_there(rows: list[dict[str, str]], tmp_path: Path) -> None:
    with pytest.raises(litebert.FolderError, match="nothing-there"):
        litebert.finetune(rows, text="review", label="where", model="nothing-there", out=tmp_path / "run")
