"""A run and its folder: what it refuses, what it keeps, and the model that comes of it."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

import litebert
from litebert.corpus.corpus import TRAIN, Corpus
from litebert.errors import FolderError, LitebertError, RequestError
from litebert.folders import lock_folder
from litebert.model.model import Model
from litebert.pretraining.config import PretrainConfig
from litebert.pretraining.job import Pretraining, count_frequencies, pretrain
from litebert.pretraining.settings import choose_pretraining
from litebert.text.tokenizer import Tokenizer
from litebert.training.config import Stage
from litebert.training.distributed import World
from litebert.training.job import ProgressEvent
from litebert.training.run_folder import RunFolder
from litebert.training.state import CheckpointStore
from tests.conftest import need, small_config
from tests.pretraining.runs import assert_same_end, entries, events, losses, pretrain_here, tiny_run


@pytest.fixture(scope="module")
def finished(small_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert pretrain_here(small_corpus, out, tiny_run()).status == "finished"
    return out


# --- what comes of a run ----------------------------------------------------------------------------------------------


def test_the_final_model_opens_everywhere(finished: Path) -> None:
    model = Model.from_pretrained(finished / "model")
    peer = need("transformers").AlbertForPreTraining.from_pretrained(finished / "model").eval()
    ids = torch.randint(5, 400, (3, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours, theirs = model(ids), peer(ids)
    torch.testing.assert_close(ours.prediction_logits, theirs.prediction_logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.sop_logits, theirs.sop_logits, rtol=1e-4, atol=1e-5)
    pipeline = litebert.load(finished / "model")
    assert len(pipeline.fill_mask(f"The river crossed {pipeline.tokenizer.mask_token}.")[0]) == 5


def test_the_card_has_the_figures(finished: Path, small_corpus: Corpus) -> None:
    card = (finished / "model" / "README.md").read_text()
    last = entries(finished, "evaluation")[-1]
    for words in (
        "masked words and sentence order",
        f"{small_corpus.num_tokens(TRAIN):,} tokens",
        f"20, {last['tokens']:,} tokens in",
        "8 rows",
        "4 × 32",
        "lamb, learning rate 0.01",
        f"| masked words right | {last['mlm_accuracy']:.1%} |",
        f"| their loss | {last['mlm_loss']:.3f} |",
        f"| sentence task right | {last['sop_accuracy']:.1%} (chance is 50 %) |",
    ):
        assert words in card, words


def test_the_logbook_has_every_step_and_evaluation(finished: Path) -> None:
    assert [step for step, _ in losses(finished)] == [*range(1, 21)]
    assert [entry["step"] for entry in entries(finished, "evaluation")] == [10, 20]
    assert [entry["step"] for entry in entries(finished, "samples")] == [10, 20]
    told = [(entry["what"], entry["step"]) for entry in entries(finished, "event")]
    assert told[0] == ("began", 0)
    assert told[-1] == ("finished", 20)
    assert [step for what, step in told if what == "saved"][:5] == [0, 5, 10, 15, 20]


def test_a_run_that_ended_and_goes_on_ends_again(small_corpus: Corpus, finished: Path, tmp_path: Path) -> None:
    """Also when it was killed between its last checkpoint and the model: card and scores are still there."""
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    shutil.rmtree(out / "model")
    outcome = pretrain_here(small_corpus, out, tiny_run(), resume=True)
    assert outcome.status == "finished"
    assert outcome.metrics["mlm_accuracy"] == entries(finished, "evaluation")[-1]["mlm_accuracy"]
    assert (out / "model" / "README.md").read_text() == (finished / "model" / "README.md").read_text()
    assert_same_end(out, finished)


def test_a_run_without_sentence_pairs_has_no_sentence_task(small_corpus: Corpus, tmp_path: Path) -> None:
    pretrain_here(small_corpus, tmp_path / "run", tiny_run(stream={"pairs": "none"}, steps=2))
    assert Model.from_pretrained(tmp_path / "run" / "model").head == "masked-lm"
    assert "sentence task" not in (tmp_path / "run" / "model" / "README.md").read_text()
    assert "sop_loss" not in entries(tmp_path / "run", "step")[0]


def test_training_learns(small_corpus: Corpus, tmp_path: Path) -> None:
    config = tiny_run(
        {"initializer_range": 0.02}, optim={"optimizer": "adamw", "lr": 0.01}, steps=50, batch_size=16, save_steps=None
    )
    pretrain_here(small_corpus, tmp_path / "run", config)
    found = [loss for _, loss in losses(tmp_path / "run")]
    assert sum(found[-10:]) / 10 < found[0] - 1


def test_a_run_may_begin_from_trained_weights(small_corpus: Corpus, finished: Path, tmp_path: Path) -> None:
    config = tiny_run(steps=1).model_copy(update={"begin_from": str(finished / "model")})
    pretrain_here(small_corpus, tmp_path / "run", config)
    first = Model.from_pretrained(CheckpointStore(tmp_path / "run" / "checkpoints", 1).all()[0].model).state_dict()
    for name, tensor in Model.from_pretrained(finished / "model").state_dict().items():
        assert torch.equal(first[name], tensor)
    other = tiny_run({"hidden_size": 48}, steps=1).model_copy(update={"begin_from": str(finished / "model")})
    with pytest.raises(RequestError, match="another shape than the run's model"):
        pretrain_here(small_corpus, tmp_path / "other", other)


def test_a_run_may_begin_from_the_encoder_of_the_package(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"Word {n} stands here. So does word {n + 1}.\n\n" for n in range(40)), encoding="utf-8")
    corpus = litebert.prepare(text, "litebert-en", tmp_path / "corpus", workers=1, held_out=0.2)
    litebert.pretrain(corpus, tmp_path / "run", model="litebert-en", steps=1, batch=2, length=16)
    model = Model.from_pretrained(tmp_path / "run" / "model")
    assert model.config.hidden_size == 384
    assert model.config.embedding_dimensions == ()  # nobody knows whether the first numbers of a vector still suffice


def test_a_run_from_trained_weights_keeps_their_depth(small_corpus: Corpus, finished: Path) -> None:
    fresh = choose_pretraining(small_corpus, {"budget": "30m"})
    assert [stage.depth for stage in fresh.train.stages] == [1, 2, 3, 3]
    begun = choose_pretraining(small_corpus, {"budget": "30m", "model": str(finished / "model")})
    assert begun.train.stages == (Stage(),)  # fewer passes first would unlearn what all of them know


def test_a_head_start_begins_with_a_lower_loss(small_corpus: Corpus, tmp_path: Path) -> None:
    shape = {"initializer_range": 0.02}
    for name, head_start in (("plain", False), ("ahead", True)):
        pretrain_here(small_corpus, tmp_path / name, tiny_run(shape, steps=1, head_start=head_start))
    (plain,), (ahead,) = losses(tmp_path / "plain"), losses(tmp_path / "ahead")
    assert ahead[1] < plain[1] - 0.3


COMPARING = (Stage(until=0.5), Stage(matching_head=True))
FOUR_HEADS = {"hidden_size": 64, "num_heads": 4}


def test_a_head_that_compares_segments_is_written_when_its_stage_begins(small_corpus: Corpus, tmp_path: Path) -> None:
    with mock.patch("litebert.pretraining.job.write_matching_head") as write:
        pretrain_here(small_corpus, tmp_path / "run", tiny_run(FOUR_HEADS, head_start=True, stages=COMPARING))
        assert write.call_count == 1
        pretrain_here(small_corpus, tmp_path / "plain", tiny_run(FOUR_HEADS, stages=COMPARING))
        assert write.call_count == 1  # without a head start there is no head to spare
        begun = {"begin_from": str(tmp_path / "run" / "model")}
        pretrain_here(small_corpus, tmp_path / "more", tiny_run(FOUR_HEADS, stages=COMPARING).model_copy(update=begun))
    assert write.call_count == 2  # a stage of a run that goes on from a model may ask for it


GROWN = (Stage(until=0.5, depth=1), Stage(matching_head=True))


@pytest.mark.parametrize("stopped_at", [12, 17])
@pytest.mark.parametrize(("stages", "sharing"), [(COMPARING, "all"), (GROWN, "none")])
def test_it_is_written_once_however_often_a_run_goes_on(
    small_corpus: Corpus, tmp_path: Path, stopped_at: int, stages: tuple[Stage, ...], sharing: str
) -> None:
    config = tiny_run({**FOUR_HEADS, "sharing": sharing}, head_start=True, stages=stages)
    pretrain_here(small_corpus, tmp_path / "whole", config)

    def stop(event: ProgressEvent) -> None:
        if event.step == stopped_at:
            raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        pretrain_here(small_corpus, tmp_path / "stopped", config, on_step=stop)
    pretrain_here(small_corpus, tmp_path / "stopped", config, resume=True)
    assert_same_end(tmp_path / "stopped", tmp_path / "whole")


GROWING = (Stage(until=0.3, depth=1), Stage(until=0.32, depth=2), Stage())


def test_layers_of_their_own_are_stacked_also_where_no_step_falls_into_a_stage(
    small_corpus: Corpus, tmp_path: Path
) -> None:
    with mock.patch("litebert.pretraining.job.stack_layers") as stack:
        pretrain_here(small_corpus, tmp_path / "own", tiny_run({"sharing": "none"}, stages=GROWING))
        assert [call.args[1:] for call in stack.call_args_list] == [(1, 2), (2, 4)]
        pretrain_here(small_corpus, tmp_path / "shared", tiny_run(stages=GROWING))
    assert stack.call_count == 2  # what is shared runs more often as it is


def test_frequencies_are_those_of_the_text(small_corpus: Corpus) -> None:
    frequencies = count_frequencies(small_corpus)
    counts = torch.zeros(400)
    for shard in small_corpus.shards[TRAIN]:
        counts += torch.bincount(torch.from_numpy(shard.tokens.astype("int64")), minlength=400)
    assert float(frequencies.sum()) == pytest.approx(1.0)
    ordinary = [i for i in range(400) if i not in small_corpus.tokenizer.reserved_ids]
    torch.testing.assert_close(frequencies[ordinary], ((counts + 1) / (counts + 1).sum())[ordinary], rtol=0.01, atol=0)
    assert max(frequencies[sorted(small_corpus.tokenizer.reserved_ids)]) < min(frequencies[ordinary])


# --- what a folder is refused for -------------------------------------------------------------------------------------


def refuse(corpus: Corpus, out: Path, config: PretrainConfig, *words: str, **settings: Any) -> None:
    """Beginning must fail with one sentence that holds these words."""
    with pytest.raises(RequestError) as caught:
        pretrain_here(corpus, out, config, **settings)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value), caught.value


def test_a_folder_with_a_run_is_not_begun_anew(small_corpus: Corpus, finished: Path) -> None:
    before = sorted(finished.rglob("*"))
    refuse(small_corpus, finished, tiny_run(), "already holds a run at step 20", "--resume")
    assert sorted(finished.rglob("*")) == before


def test_a_folder_with_something_else_is_left_alone(small_corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for resume in (False, True):
        refuse(small_corpus, tmp_path, tiny_run(), "is not empty and holds no run", resume=resume)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_no_folder_for_a_run(small_corpus: Corpus, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(LitebertError) as caught:
            pretrain_here(small_corpus, place, tiny_run())
        assert str(place) in str(caught.value)


def test_two_processes_do_not_write_to_one_run(small_corpus: Corpus, tmp_path: Path) -> None:
    lock = lock_folder(tmp_path, "run")
    refuse(small_corpus, tmp_path, tiny_run(steps=1), "another run is writing to", str(tmp_path))
    os.close(lock)
    pretrain_here(small_corpus, tmp_path, tiny_run(steps=1))
    os.close(lock_folder(tmp_path, "run"))  # the end of a run lets go of it


def test_there_must_be_something_to_go_on_from(small_corpus: Corpus, tmp_path: Path) -> None:
    refuse(small_corpus, tmp_path / "run", tiny_run(steps=1), "holds no whole checkpoint", resume=True)
    pretrain_here(small_corpus, tmp_path / "run", tiny_run(steps=1))  # nothing stands in the way of a beginning


def test_a_vocabulary_must_be_that_of_the_corpus(small_corpus: Corpus, tmp_path: Path) -> None:
    refuse(small_corpus, tmp_path / "run", tiny_run({"vocab_size": 401}), "401", "400", "must be the same")


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(small_corpus: Corpus, tmp_path: Path) -> None:
    """It is then what it is begun as, not what it was meant to be before."""
    out = tmp_path / "run"
    pretrain_here(small_corpus, out, tiny_run(steps=1))
    shutil.rmtree(out / "checkpoints")
    pretrain_here(small_corpus, out, tiny_run(steps=2, seed=5))
    assert RunFolder(out).read_config(PretrainConfig) == tiny_run(steps=2, seed=5)
    assert [step for step, _ in losses(out)] == [1, 2]
    # A kill in the very moment in which run.json was written leaves this:
    shutil.rmtree(out)
    out.mkdir()
    (out / "run.json.partial").write_text("{")
    pretrain_here(small_corpus, out, tiny_run(steps=1))
    assert RunFolder(out).read_config(PretrainConfig) == tiny_run(steps=1)


def test_what_a_run_was_begun_with_is_kept(small_corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "run"
    config = tiny_run({"hidden_dropout": 0.1}, stages=(Stage(until=0.5, length=16), Stage()), steps=2)
    pretrain_here(small_corpus, out, config)
    assert RunFolder(out).read_config(PretrainConfig) == config
    said = json.loads((out / "run.json").read_text())
    assert said["corpus"]["train_tokens"] == small_corpus.num_tokens(TRAIN)
    assert said["machine"]["processes"] == 1
    kept = config.train.model_copy(update={"keep": 7})
    pretrain_here(small_corpus, out, config.model_copy(update={"train": kept}), resume=True)
    assert RunFolder(out).read_config(PretrainConfig) == config


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "holds no run"),
        ("{", "cannot be read as JSON"),
        ("[]", "must hold one JSON object"),
        ("{}", "is not of this version of litebert (model: Field required)"),
        ('{"config": {"colour": "red"}}', "is not of this version of litebert"),
        ('{"config": 3}', "is not of this version of litebert"),
    ],
)
def test_a_broken_run_file_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(FolderError) as caught:
        RunFolder(tmp_path).read_config(PretrainConfig)
    assert said in str(caught.value)
    assert "run.json" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"stream": {"length": 64}}, "length 64 is beyond the model's 48 positions"),
        ({"stages": (Stage(until=0.5, length=49), Stage())}, "length 49 is beyond"),
        ({"stages": (Stage(depth=9),)}, "a stage of depth 9 does not fit a model of 4 layers"),
        ({"model": {"sharing": "none"}, "stages": (Stage(depth=5),)}, "a stage of depth 5"),
    ],
)
def test_settings_that_do_not_fit_the_model_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tiny_run(**changes)
    with pytest.raises(ValueError, match="choose one of them"):
        PretrainConfig(**{**dict(tiny_run()), "model": small_config(), "head_start": True, "begin_from": "x"})
    with pytest.raises(ValueError, match="segment_heads are a part of a head start"):
        PretrainConfig(**{**dict(tiny_run()), "model": small_config(), "head_start": False, "segment_heads": True})
    few = small_config(num_heads=2)
    with pytest.raises(ValueError, match="four heads or more"):
        PretrainConfig(**{**dict(tiny_run()), "model": few, "head_start": True, "segment_heads": True})


# --- time -------------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def tick(self, event: ProgressEvent) -> None:
        """A step takes a second."""
        self.now += 1.0


def test_a_time_budget_ends_a_run_and_its_stages(small_corpus: Corpus, tmp_path: Path) -> None:
    clock = Clock(now=1000.0)
    config = tiny_run(seconds=10.0, stages=(Stage(until=0.5, depth=2, length=16), Stage()))
    outcome = pretrain_here(small_corpus, tmp_path / "run", config, clock=clock, on_step=clock.tick)
    assert (outcome.status, outcome.seconds) == ("finished", 10.0)
    lines = entries(tmp_path / "run", "step")
    assert [entry["seconds"] for entry in lines] == [float(second) for second in range(11)]
    # A step is of the stage in which it begins, and has the rate of that moment.
    assert [entry["depth"] for entry in lines] == [2] * 6 + [4] * 5
    assert [entry["length"] for entry in lines] == [16] * 6 + [32] * 5
    assert lines[-1]["progress"] == 1.0
    rates = [entry["learning_rate"] for entry in lines]
    assert rates[-1] < rates[6] < rates[3]
    assert [entry["seconds"] for entry in entries(tmp_path / "run", "evaluation")] == [5.0, 10.0]


def test_a_time_budget_goes_on_where_it_was(small_corpus: Corpus, tmp_path: Path) -> None:
    clock = Clock(now=50.0)

    def stop_soon(event: ProgressEvent) -> None:
        clock.tick(event)
        if event.step == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    config = tiny_run(seconds=10.0, save_seconds=3.0, save_steps=None)
    outcome = pretrain_here(small_corpus, tmp_path / "run", config, clock=clock, on_step=stop_soon)
    assert signal.getsignal(signal.SIGTERM) == before
    assert (outcome.status, outcome.signal, outcome.step) == ("interrupted", signal.SIGTERM, 5)
    assert outcome.seconds == 4.0
    later = Clock(now=9_999.0)  # time that passes between the two does not count
    outcome = pretrain_here(small_corpus, tmp_path / "run", config, resume=True, clock=later, on_step=later.tick)
    assert (outcome.status, outcome.seconds) == ("finished", 10.0)
    saved = [entry["seconds"] for entry in entries(tmp_path / "run", "event") if entry["what"] == "saved"]
    assert saved == [0.0, 3.0, 4.0, 5.0, 8.0, 10.0]  # also when it is the best so far, and at the end
    assert "resumed" in events(tmp_path / "run")


def test_fewer_evaluations_from_now_on_still_score_the_end(small_corpus: Corpus, tmp_path: Path) -> None:
    out = tmp_path / "run"

    def stop(event: ProgressEvent) -> None:
        if event.step == 9:
            os.kill(os.getpid(), signal.SIGINT)

    pretrain_here(small_corpus, out, tiny_run(evaluations=20), on_step=stop)
    pretrain_here(small_corpus, out, tiny_run(evaluations=2), resume=True)
    assert [entry["step"] for entry in entries(out, "evaluation")] == [*range(1, 11), 20]


def takes(clock: Clock, method: Any, seconds: float) -> Any:
    """A method that takes so long by the clock."""

    def slow(*args: Any, **kwargs: Any) -> Any:
        clock.now += seconds
        return method(*args, **kwargs)

    return slow


def run_slowly(corpus: Corpus, out: Path, config: PretrainConfig, startup: float, evaluation: float) -> Clock:
    """A run whose start, evaluations and checkpoints take their time; each step takes a second."""
    clock = Clock(now=1000.0)
    with (
        mock.patch.object(Pretraining, "describe_run", takes(clock, Pretraining.describe_run, startup)),
        mock.patch.object(Pretraining, "evaluate", takes(clock, Pretraining.evaluate, evaluation)),
        mock.patch.object(Pretraining, "write_model", takes(clock, Pretraining.write_model, 1.0)),
    ):
        assert pretrain_here(corpus, out, config, clock=clock, on_step=clock.tick).status == "finished"
    return clock


@pytest.mark.parametrize(("evaluation", "most"), [(0.25, 20), (1.0, 5), (2.0, 2)])
def test_a_time_budget_is_for_all_of_the_run(
    small_corpus: Corpus, tmp_path: Path, evaluation: float, most: int
) -> None:
    config = tiny_run(seconds=100.0, evaluations=20, save_steps=None, keep=1)
    clock = run_slowly(small_corpus, tmp_path / "run", config, startup=10.0, evaluation=evaluation)
    assert 85.0 <= clock.now - 1000.0 <= 102.0  # a step and a checkpoint may begin just before the end
    evaluations = entries(tmp_path / "run", "evaluation")
    assert 2 <= len(evaluations) <= most
    assert evaluations[-1]["progress"] == 1.0
    assert entries(tmp_path / "run", "step")[-1]["learning_rate"] < 0.0005  # the schedule ends with the run


def test_a_budget_that_is_too_short_still_trains(small_corpus: Corpus, tmp_path: Path) -> None:
    config = tiny_run(seconds=8.0, save_steps=None)
    run_slowly(small_corpus, tmp_path / "run", config, startup=30.0, evaluation=9.0)
    assert len(entries(tmp_path / "run", "step")) >= 2
    assert entries(tmp_path / "run", "evaluation")


def test_a_stage_is_evaluated_at_its_depth_too(small_corpus: Corpus, tmp_path: Path) -> None:
    config = tiny_run(steps=4, evaluations=4, stages=(Stage(until=0.5, depth=1), Stage()))
    result = pretrain_here(small_corpus, tmp_path / "run", config)
    found = entries(tmp_path / "run", "evaluation")
    added = [{name for name in entry if name.startswith("stage_")} for entry in found]
    names = {"stage_mlm_loss", "stage_mlm_accuracy", "stage_sop_loss", "stage_sop_accuracy"}
    assert added == [names, names, set(), set()]
    assert found[0]["stage_mlm_loss"] != found[0]["mlm_loss"]
    assert not {name for name in result.metrics if name.startswith("stage_")}


def test_a_run_may_begin_from_fewer_layers_and_with_other_dropout(small_corpus: Corpus, tmp_path: Path) -> None:
    pretrain(small_corpus, tmp_path / "shallow", tiny_run({"num_layers": 2}, steps=2), guessers=False)
    begun = str(tmp_path / "shallow" / "model")
    deeper = tiny_run({"num_layers": 6, "hidden_dropout": 0.1}, steps=1).model_copy(update={"begin_from": begun})
    job = Pretraining(small_corpus, deeper)
    job.setup(World(), deeper, True, lambda message: None)
    assert job.model.config.num_layers == 6
    assert job.model.config.hidden_dropout == 0.1
    stored = Model.from_pretrained(begun, "pretraining").state_dict()
    assert all(torch.equal(stored[name], tensor) for name, tensor in job.model.state_dict().items())


def test_a_run_cannot_begin_from_another_width_or_from_fewer_layers_of_their_own(
    small_corpus: Corpus, tmp_path: Path
) -> None:
    apart = {"num_layers": 2, "sharing": "none"}
    pretrain(small_corpus, tmp_path / "shallow", tiny_run(apart, steps=1), guessers=False)
    begun = str(tmp_path / "shallow" / "model")
    for changes in ({**apart, "num_layers": 3}, {**apart, "hidden_size": 48}):
        with pytest.raises(RequestError, match="has another shape"):
            pretrain(small_corpus, tmp_path / "run", tiny_run(changes).model_copy(update={"begin_from": begun}))


def test_a_run_is_evaluated_on_the_held_out_text_that_is_named(
    small_corpus: Corpus, small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    from tests.corpus.conftest import make_documents, prepare_documents

    other = prepare_documents(tmp_path / "other", make_documents(300, seed=5), small_tokenizer, held_out=0.2)
    config = tiny_run(steps=2)
    own, named = (
        pretrain(other, tmp_path / name, config, held_out=text, guessers=False)
        for name, text in (("own", None), ("named", small_corpus))
    )
    assert own.metrics["mlm_loss"] != named.metrics["mlm_loss"]
    assert own.baselines == named.baselines == {}
