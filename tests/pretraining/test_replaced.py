"""Replaced words told apart beside masked ones: a question of training alone, which no model folder remembers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from litebert.corpus.corpus import Corpus
from litebert.errors import RequestError
from litebert.model.model import Model
from litebert.presets import preset_config
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.evaluation import held_out_batches
from litebert.pretraining.recipes import budget_run, paper_run
from litebert.pretraining.settings import choose_pretraining, resume_pretraining
from litebert.reports.pretraining import write_report
from litebert.training.config import Stage
from litebert.training.job import ProgressEvent
from litebert.training.state import CheckpointStore
from tests.conftest import need
from tests.pretraining.runs import (
    Nursery,
    assert_same_end,
    entries,
    events,
    last_tensors,
    losses,
    make_job,
    pretrain_here,
    tiny_run,
)


def replacing(*args: Any, rate: float = 0.12, **settings: Any) -> PretrainConfig:
    """A tiny run in which words are replaced."""
    return tiny_run(*args, **settings).model_copy(update={"replaced_rate": rate})


@pytest.fixture(scope="module")
def finished(small_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended."""
    out = tmp_path_factory.mktemp("replaced") / "run"
    told: list[str] = []
    assert pretrain_here(small_corpus, out, replacing(), on_message=told.append).status == "finished"
    assert any("which words stand beside which" in message for message in told)
    return out


def test_the_folder_is_that_of_a_run_without(small_corpus: Corpus, finished: Path, tmp_path: Path) -> None:
    pretrain_here(small_corpus, tmp_path / "plain", tiny_run())
    last = CheckpointStore(tmp_path / "plain" / "checkpoints", 1).all()[-1].model
    for folder in (Path("model"), last.relative_to(tmp_path / "plain")):
        with_it, without = (load_file(run / folder / "model.safetensors") for run in (finished, tmp_path / "plain"))
        assert list(with_it) == list(without)
        assert (finished / folder / "config.json").read_text() == (
            tmp_path / "plain" / folder / "config.json"
        ).read_text()
    model = Model.from_pretrained(finished / "model")
    peer = need("transformers").AlbertForPreTraining.from_pretrained(finished / "model").eval()
    ids = torch.randint(5, 400, (3, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(model(ids).sop_logits, peer(ids).sop_logits, rtol=1e-4, atol=1e-5)
    assert "| replaced | 12% of the others" in (finished / "model" / "README.md").read_text()


def test_own_forms_of_sharing_leave_the_head_out_too(small_corpus: Corpus, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="transformers"):
        pretrain_here(small_corpus, tmp_path / "run", replacing({"sharing": "attention"}, steps=2))
    assert not [name for name in load_file(tmp_path / "run" / "model" / "model.safetensors") if "replaced" in name]
    assert Model.from_pretrained(tmp_path / "run" / "model").fresh_tensors == ()


def test_its_loss_is_logged_and_falls(small_corpus: Corpus, tmp_path: Path) -> None:
    adam = {"optimizer": "adamw", "lr": 0.01}
    config = replacing({"initializer_range": 0.02}, optim=adam, steps=100, batch_size=16, save_steps=None)
    pretrain_here(small_corpus, tmp_path / "run", config)
    steps = entries(tmp_path / "run", "step")
    names = ("mlm_loss", "sop_loss", "replaced_loss")
    for entry in steps:
        assert entry["loss"] == pytest.approx(sum(entry[name] for name in names))
    assert steps[0]["replaced_loss"] == pytest.approx(5 * 0.6931, rel=1e-3)  # of a head that says nothing yet
    assert sum(entry["replaced_loss"] for entry in steps[-10:]) / 10 < 5 * 0.37  # of 0.12 always, it would be 0.367
    assert "Replaced-token loss" in write_report(tmp_path / "run").read_text(encoding="utf-8")


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("pairs", ["none", "nsp", "sop"])
def test_every_form_of_rows_trains(small_corpus: Corpus, tmp_path: Path, pairs: str, packing: bool) -> None:
    config = replacing(stream={"pairs": pairs, "packing": packing}, steps=2, save_steps=None)
    pretrain_here(small_corpus, tmp_path / "run", config)
    assert ("sop_loss" in entries(tmp_path / "run", "step")[0]) == (pairs != "none")
    assert entries(tmp_path / "run", "step")[-1]["replaced_loss"] > 0


def test_only_stages_at_full_depth_ask(small_corpus: Corpus, tmp_path: Path) -> None:
    config = replacing(stages=(Stage(until=0.5, depth=2), Stage()))
    pretrain_here(small_corpus, tmp_path / "run", config)
    told = [entry["replaced_loss"] for entry in entries(tmp_path / "run", "step")]
    assert told[:10] == [0.0] * 10
    assert told[10] == pytest.approx(5 * 0.6931, rel=1e-3)  # the head says nothing yet
    with pytest.raises(ValueError, match="full depth"):
        PretrainConfig.parse(replacing(stages=(Stage(depth=2),)).model_dump())


def test_masked_words_get_the_same_states_with_and_without(small_corpus: Corpus) -> None:
    torch.manual_seed(0)
    config = tiny_run()
    model = Model(config.model, config.head)
    model.add_replaced_head()
    for stream in (config.stream, config.stream.model_copy(update={"packing": False})):
        batch = held_out_batches(small_corpus, stream, 32)[0]
        assert batch.replaced_labels is None  # held-out text is as it is
        few, all_of_them = (model(**batch.inputs(), find_replaced=found) for found in (False, True))
        torch.testing.assert_close(few.prediction_logits, all_of_them.prediction_logits)
        torch.testing.assert_close(few.sop_logits, all_of_them.sop_logits)
        assert few.replaced_logits is None
        assert all_of_them.replaced_logits.shape == batch.input_ids.shape


# --- what goes on -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["lamb", "adamw"])
def test_a_run_that_was_killed_ends_as_if_nothing_had_happened(
    small_corpus: Corpus, tmp_path: Path, optimizer: str
) -> None:
    stages = (Stage(until=0.5, depth=2, length=16), Stage())
    config = replacing(optim={"optimizer": optimizer}, stages=stages, head_start=True)
    pretrain_here(small_corpus, tmp_path / "whole", config)

    def stop(event: ProgressEvent) -> None:
        if event.step in (4, 13):
            raise ConnectionAbortedError

    for resume in (False, True):
        with pytest.raises(ConnectionAbortedError):
            pretrain_here(small_corpus, tmp_path / "killed", config, resume=resume, on_step=stop)
    pretrain_here(small_corpus, tmp_path / "killed", config, resume=True)
    assert_same_end(tmp_path / "killed", tmp_path / "whole")
    head = last_tensors(tmp_path / "whole")["optimizer heads.replaced.linear.weight"]
    assert head.shape == (1, 24)
    assert head.abs().max() > 0


def test_a_run_that_goes_back_takes_the_head_along(small_corpus: Corpus, tmp_path: Path) -> None:
    poison = {str(step): "nan loss" for step in (8, 9, 10)}
    pretrain_here(small_corpus, tmp_path / "run", replacing(), poison=poison)
    assert "rolled back" in events(tmp_path / "run")
    after = [entry["replaced_loss"] for entry in entries(tmp_path / "run", "step") if entry["step"] > 10]
    assert after
    assert all(loss != pytest.approx(5 * 0.6931, rel=1e-4) for loss in after)  # as a head of zeros would have


def test_a_run_may_begin_from_a_folder_that_has_no_such_head(
    small_corpus: Corpus, finished: Path, tmp_path: Path
) -> None:
    config = replacing(steps=2).model_copy(update={"begin_from": str(finished / "model")})
    told: list[str] = []
    pretrain_here(small_corpus, tmp_path / "run", config, on_message=told.append)
    assert not [message for message in told if "afresh" in message]
    assert entries(tmp_path / "run", "step")[0]["replaced_loss"] == pytest.approx(5 * 0.6931, rel=1e-3)


def test_runs_from_before_there_was_such_a_setting_go_on(small_corpus: Corpus, tmp_path: Path) -> None:
    config, out = tiny_run(), tmp_path / "run"
    assert not [name for name in config.identity() if "replaced" in name]

    def stop(event: ProgressEvent) -> None:
        if event.step == 7:
            raise ConnectionAbortedError

    pretrain_here(small_corpus, tmp_path / "whole", config)
    with pytest.raises(ConnectionAbortedError):
        pretrain_here(small_corpus, out, config, on_step=stop)
    about = json.loads((out / "run.json").read_text())
    del about["config"]["replaced_rate"], about["config"]["replaced_weight"]
    (out / "run.json").write_text(json.dumps(about))
    assert PretrainConfig.parse(about["config"]) == config
    pretrain_here(small_corpus, out, config, resume=True)
    assert_same_end(out, tmp_path / "whole")
    with pytest.raises(RequestError, match="replaced_rate"):
        pretrain_here(small_corpus, out, replacing(), resume=True)


def test_what_an_older_run_could_not_know_is_not_asked_of_it(small_corpus: Corpus, tmp_path: Path) -> None:
    options = {"budget": "2h", "model": "albert-mini"}
    today = choose_pretraining(small_corpus, options)
    assert today.replaced_rate == 0.12
    stored = today.model_dump(mode="json")
    del stored["replaced_rate"], stored["replaced_weight"]
    (tmp_path / "run.json").write_text(json.dumps({"kind": "pretraining", "config": stored}))
    resumed = resume_pretraining(tmp_path, small_corpus, options)
    assert resumed.replaced_rate == 0.0
    with pytest.raises(RequestError, match="replaced_rate"):
        resume_pretraining(tmp_path, small_corpus, options, None, ["replaced_rate=0.12"])
    for again in ({}, {"model": "albert-mini"}):
        assert choose_pretraining(small_corpus, again, tmp_path / "run.json").replaced_rate == 0.0


def test_short_runs_ask_nothing_however_their_time_is_said(small_corpus: Corpus) -> None:
    for short in ("train.steps=200", "train.seconds=300.0"):
        assert choose_pretraining(small_corpus, {}, None, [short]).replaced_rate == 0.0
    assert choose_pretraining(small_corpus, {"steps": 5}, None, ["train.seconds=9000.0"]).replaced_rate == 0.12
    assert choose_pretraining(small_corpus, {}, {"train": {"seconds": 7200.0}}).replaced_rate == 0.12
    for wrong in ("train.seconds=-1.0", "train.seconds=1e12", "train.steps=many"):
        with pytest.raises(RequestError):
            choose_pretraining(small_corpus, {}, None, [wrong])


def test_a_weight_for_nothing_is_refused(small_corpus: Corpus) -> None:
    with pytest.raises(RequestError, match="set replaced_rate as well"):
        choose_pretraining(small_corpus, {"budget": "10m"}, None, ["replaced_weight=10"])


@pytest.mark.parametrize(("parallel", "sharing"), [("ddp", "all"), ("fsdp", "none")])
def test_two_processes_train_as_one(
    nursery: Nursery, small_corpus: Corpus, tmp_path: Path, parallel: str, sharing: str
) -> None:
    stages = (Stage(until=0.5, depth=2), Stage())  # the head has no gradient in the first half
    config = replacing({"sharing": sharing}, parallel=parallel, steps=12, stages=stages)
    pretrain_here(small_corpus, tmp_path / "one", config)
    pieces = config.model_copy(update={"train": config.train.model_copy(update={"micro_batch_size": 2})})
    kill = {"rank": 0, "step": 11, "mark": str(tmp_path / "mark")}
    codes = nursery.run(make_job(small_corpus, tmp_path / "two", pieces, processes=2, kill=kill))
    assert codes[0] == -9
    nursery.finish(make_job(small_corpus, tmp_path / "two", pieces, processes=2, resume=True))
    found, wanted = (losses(tmp_path / name) for name in ("two", "one"))
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in wanted], rel=1e-5)
    told, known = ([e["replaced_loss"] for e in entries(tmp_path / name, "step")] for name in ("two", "one"))
    assert told == pytest.approx(known, rel=1e-5)


# --- who asks for it --------------------------------------------------------------------------------------------------


def test_a_long_budget_asks_for_it_and_a_setting_leaves_it_out(small_corpus: Corpus) -> None:
    model = preset_config("albert-mini")
    assert budget_run(model, 7200.0).replaced_rate == 0.12
    assert budget_run(model, 60.0).replaced_rate == budget_run(model, steps=10).replaced_rate == 0.0
    assert paper_run(model).replaced_rate == 0.0
    chosen = choose_pretraining(small_corpus, {"budget": "2h"}, None, ["replaced_rate=0"])
    assert chosen.replaced_rate == 0.0
