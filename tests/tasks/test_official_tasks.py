"""GLUE's nine tasks, both SQuADs and RACE: from official files to a model, its score and the file to submit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from litebert.model.model import Model
from litebert.tasks.config import configure
from litebert.tasks.finetune import open_encoder
from litebert.tasks.kinds import kind_of
from litebert.tasks.metrics import compute_metrics, evaluate_outputs
from litebert.tasks.predictions import (
    read_predictions,
    write_glue_submission,
    write_predictions,
    write_squad_predictions,
)
from litebert.tasks.readers.sources import OFFICIAL, read_examples, read_official
from litebert.tasks.saved import read_saved_task
from litebert.tasks.task import Predictions
from litebert.text.tokenizer import Tokenizer
from tests.tasks.small import ask, finetune_here

SENTENCES = (
    "The old captain crossed the bridge.",
    'Every student said "good advice" twice.',
    "Nobody measured the river in 1990.",
    "Two sailors painted three apples.",
    "My neighbour Anna gave back her father's letter.",
    "A café is what the naïve king believed in.",
)
GLUE_NAMES = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli")


def put(file: Path, lines: list[str], start: str = "") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(start + "".join(line + "\n" for line in lines), encoding="utf-8")


def sentence(number: int) -> str:
    return SENTENCES[number % len(SENTENCES)]


# --- official files ---------------------------------------------------------------------------------------------------


def write_cola(home: Path) -> None:
    for split, count in (("train", 6), ("dev", 4)):
        rows = [f"gj04\t{n % 2}\t{'' if n % 2 else '*'}\t{sentence(n)}" for n in range(count)]
        put(home / "CoLA" / f"{split}.tsv", rows)
    put(home / "CoLA" / "test.tsv", ["index\tsentence", *(f"{n}\t{sentence(n)}" for n in range(3))])


def write_sst2(home: Path) -> None:
    for split, count in (("train", 6), ("dev", 4)):
        put(home / "SST-2" / f"{split}.tsv", ["sentence\tlabel", *(f"{sentence(n)} \t{n % 2}" for n in range(count))])
    put(home / "SST-2" / "test.tsv", ["index\tsentence", *(f"{n}\t{sentence(n)}" for n in range(3))])


def write_mrpc(home: Path) -> None:
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    for name, count in (("msr_paraphrase_train.txt", 6), ("dev.tsv", 4)):
        rows = [f"{n % 2}\t{n}01\t{n}02\t{sentence(n)}\t{sentence(n + 1)}" for n in range(count)]
        put(home / "MRPC" / name, [header, *rows], start="\ufeff")
    rows = [f"{n}\t{n}01\t{n}02\t{sentence(n)}\t{sentence(n + 2)}" for n in range(3)]
    put(home / "MRPC" / "test.tsv", [header.replace("Quality", "index"), *rows])


def write_stsb(home: Path) -> None:
    header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
    row = "{n}\tmain-news\tMSRvid\t2012\t{n:04}\tnone\tnone\t{first}\t{second}"

    def rows(count: int, score: bool) -> list[str]:
        plain = [row.format(n=n, first=sentence(n), second=sentence(n + 1)) for n in range(count)]
        return [f"{line}\t{n % 6}.{n % 4}00" if score else line for n, line in enumerate(plain)]

    put(home / "STS-B" / "train.tsv", [f"{header}\tscore", *rows(5, True)])
    put(home / "STS-B" / "dev.tsv", [f"{header}\tscore", *rows(4, True)])
    put(home / "STS-B" / "test.tsv", [header, *rows(3, False)])


def write_qqp(home: Path) -> None:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
    for split, count in (("train", 6), ("dev", 4)):
        rows = [f"{n + 40}\t{n}\t{n + 1}\t{sentence(n)}\t{sentence(n + 1)}\t{n % 2}" for n in range(count)]
        broken = ["99\t1\t2\tonly one question"] if split == "train" else []
        put(home / "QQP" / f"{split}.tsv", [header, *rows, *broken])
    rows = [f"{n}\t{sentence(n)}\t{sentence(n + 1)}" for n in range(3)]
    put(home / "QQP" / "test.tsv", ["id\tquestion1\tquestion2", *rows])


def write_mnli(home: Path) -> None:
    columns = "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse"
    columns += "\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2"
    labels = ("neutral", "entailment", "contradiction")

    def rows(count: int, ending: str = "") -> list[str]:
        parses = "( a )\t( b )\t(ROOT a)\t(ROOT b)"
        return [f"{n}\t1\t1n\tfiction\t{parses}\t{sentence(n)}\t{sentence(n + 1)}{ending}" for n in range(count)]

    train = [f"{line}\t{labels[n % 3]}\t{labels[n % 3]}" for n, line in enumerate(rows(6))]
    put(home / "MNLI" / "train.tsv", [f"{columns}\tlabel1\tgold_label", *train])
    people = "\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label"
    for split in ("dev_matched", "dev_mismatched"):
        dev = [f"{line}{f'{chr(9)}{labels[n % 3]}' * 6}" for n, line in enumerate(rows(3))]
        undecided = [line + "\tneutral" * 5 + "\t-" for line in rows(1)]
        put(home / "MNLI" / f"{split}.tsv", [columns + people, *dev, *undecided])
    for split in ("test_matched", "test_mismatched"):
        put(home / "MNLI" / f"{split}.tsv", [columns, *rows(3)])


def write_inference(folder: str, first: str, second: str, labels: tuple[str, str]) -> Callable[[Path], None]:
    def write(home: Path) -> None:
        header = f"index\t{first}\t{second}"
        for split, count in (("train", 6), ("dev", 4), ("test", 3)):
            rows = [f"{n}\t{sentence(n)}\t{sentence(n + 1)}" for n in range(count)]
            if split != "test":
                rows = [f"{line}\t{labels[n % 2]}" for n, line in enumerate(rows)]
            put(home / folder / f"{split}.tsv", [header + ("" if split == "test" else "\tlabel"), *rows])

    return write


def write_squad(version: str) -> Callable[[Path], None]:
    def write(home: Path) -> None:
        context = " ".join(SENTENCES)
        for split in ("train", "dev", "test"):
            questions: list[dict[str, Any]] = []
            for number, text in enumerate(("the bridge", "1990", "three apples", "Anna")):
                question: dict[str, Any] = {"id": f"{split}{number}", "question": f"Which one is it of {number}?"}
                if split != "test":
                    question["answers"] = [{"text": text, "answer_start": context.index(text)}] * (1 + number)
                    question |= {"is_impossible": False} if version == "v2.0" else {}
                questions.append(question)
            if version == "v2.0" and split != "test":
                plausible = [{"text": "Nobody", "answer_start": context.index("Nobody")}]
                nothing: dict[str, Any] = {"answers": [], "is_impossible": True, "plausible_answers": plausible}
                questions += [{"id": f"{split}{n}", "question": "Who fell?", **nothing} for n in (8, 9)]
            data = [{"title": "River", "paragraphs": [{"context": context, "qas": questions}]}]
            put(home / f"{split}-{version}.json", [json.dumps({"version": version, "data": data})])

    return write


def write_race(home: Path) -> None:
    for split in ("train", "dev", "test"):
        for group, number in (("middle", 3), ("high", 12)):
            passage = {
                "article": " ".join(SENTENCES),
                "questions": ["The captain crossed  _  .", "Who gave back a letter?"],
                "options": [["the bridge", "a river", "the city", "a café"], ["Anna", "a king", "nobody", "students"]],
                "answers": ["A", "A"],
                "id": f"{group}{number}.txt",
            }
            put(home / "RACE" / split / group / f"{number}.txt", [json.dumps(passage)])


WRITERS: dict[str, Callable[[Path], None]] = {
    "cola": write_cola,
    "sst-2": write_sst2,
    "mrpc": write_mrpc,
    "sts-b": write_stsb,
    "qqp": write_qqp,
    "mnli": write_mnli,
    "qnli": write_inference("QNLI", "question", "sentence", ("entailment", "not_entailment")),
    "rte": write_inference("RTE", "sentence1", "sentence2", ("entailment", "not_entailment")),
    "wnli": write_inference("WNLI", "sentence1", "sentence2", ("0", "1")),
    "squad1": write_squad("v1.1"),
    "squad2": write_squad("v2.0"),
    "race": write_race,
}


def test_no_task_is_forgotten() -> None:
    assert WRITERS.keys() == OFFICIAL.keys()
    assert set(GLUE_NAMES) == WRITERS.keys() - {"squad1", "squad2", "race"}


def train(name: str, home: Path, encoder: Path, out: Path) -> dict[str, Any]:
    """Three steps on the official files of a task, as the command takes them."""
    WRITERS[name](home)
    shape, tokenizer, begin_from = open_encoder(str(encoder))
    data = read_official(name, home)
    settings: dict[str, Any] = {"steps": 3, "batch_size": 4, "max_length": 48}
    config = configure(data.task, len(data.splits["train"]), shape, begin_from, **settings)
    config = config.model_copy(update={"train": config.train.model_copy(update={"precision": "fp32"})})
    outcome = finetune_here(data, out, config, tokenizer)
    assert (outcome.status, outcome.step) == ("finished", 3)
    assert data.task.metric in outcome.metrics
    return {"splits": data.splits, "task": data.task, "best": outcome.metrics[data.task.metric]}


@pytest.mark.parametrize("name", GLUE_NAMES)
def test_glue(name: str, small_encoder: Path, tmp_path: Path) -> None:
    run = train(name, tmp_path / "glue", small_encoder, tmp_path / "run")
    task, splits = run["task"], run["splits"]
    dev = splits["dev"]
    predictions = ask(tmp_path / "run" / "model", dev)[3]
    metrics = compute_metrics(task, dev, predictions)
    assert {*task.metrics} <= metrics.keys()
    close = 1e-3 if name == "sts-b" else 1e-6  # after three steps all answers are nearly the same
    assert metrics[task.metric] == pytest.approx(run["best"], abs=close)
    write_predictions(tmp_path / "dev.jsonl", task, dev, predictions)
    again = read_predictions(task, dev, tmp_path / "dev.jsonl")
    assert again.answers == predictions.answers
    assert compute_metrics(task, dev, again)[task.metric] == pytest.approx(run["best"], abs=close)

    files = []
    for split in (split for split in splits if split.startswith("test")):
        test = splits[split]
        assert [example.label for example in test] == [None] * 3
        file = write_glue_submission(
            tmp_path / "submission", task, split, test, ask(tmp_path / "run" / "model", test)[3].answers
        )
        files.append(file.name)
        header, *lines = file.read_text().splitlines()
        assert header == "index\tprediction"
        assert [line.split("\t")[0] for line in lines] == ["0", "1", "2"]
        for value in (line.split("\t")[1] for line in lines):
            if name == "sts-b":
                assert 0 <= float(value) <= 5
                assert len(value) == 5
            else:
                assert value in task.labels
    official = {"sst-2": "SST-2", "cola": "CoLA", "sts-b": "STS-B"}.get(name, name.upper())
    assert files == (["MNLI-m.tsv", "MNLI-mm.tsv"] if name == "mnli" else [f"{official}.tsv"])
    if name == "mnli":
        other = splits["dev_mismatched"]
        assert "accuracy" in compute_metrics(task, other, ask(tmp_path / "run" / "model", other)[3])


@pytest.mark.parametrize("name", ["squad1", "squad2"])
def test_squad(name: str, small_encoder: Path, tmp_path: Path) -> None:
    run = train(name, tmp_path / "squad", small_encoder, tmp_path / "run")
    task, dev, test = run["task"], run["splits"]["dev"], run["splits"]["test"]
    _, features, outputs, predictions = ask(tmp_path / "run" / "model", dev)
    assert features.num_items > 2 * len(dev)  # windows, as the contexts are longer than a row
    threshold = read_saved_task(tmp_path / "run" / "model").threshold
    metrics, _ = evaluate_outputs(task, dev, outputs, threshold)
    assert metrics["f1"] == pytest.approx(run["best"])
    assert (threshold is not None) == ("threshold" in metrics) == (name == "squad2")
    file = tmp_path / "predictions.json"
    second = write_squad_predictions(
        file, dev, predictions.answers, predictions.null_odds if name == "squad2" else None
    )
    told = json.loads(file.read_text())
    assert list(told) == [example.id for example in dev]
    assert all(isinstance(text, str) and text in dev[0].context for text in told.values())
    again = read_predictions(task, dev, file, second)
    assert compute_metrics(task, dev, again)["f1"] == pytest.approx(run["best"])
    if name == "squad2":
        assert second == tmp_path / "predictions_null_odds.json"
        assert json.loads(second.read_text()).keys() == told.keys()
        raw = kind_of(task).decode(task, outputs)  # before the threshold, as the official script takes them
        best = compute_metrics(task, dev, Predictions(raw.answers, null_odds=again.null_odds))
        assert best["best_f1"] >= metrics["f1"] - 1e-9
        assert {"HasAns_f1", "NoAns_f1", "best_exact_thresh"} <= best.keys()
    given = ask(tmp_path / "run" / "model", test)[3].answers
    write_squad_predictions(tmp_path / "test.json", test, given)
    assert list(json.loads((tmp_path / "test.json").read_text())) == ["test0", "test1", "test2", "test3"]
    examples, _ = read_examples(task, tmp_path / "squad" / f"dev-v{'2.0' if name == 'squad2' else '1.1'}.json", True)
    assert examples == dev


def test_race(small_encoder: Path, tmp_path: Path) -> None:
    run = train("race", tmp_path / "race", small_encoder, tmp_path / "run")
    task, dev = run["task"], run["splits"]["dev"]
    predictions = ask(tmp_path / "run" / "model", dev)[3]
    metrics = compute_metrics(task, dev, predictions)
    parts = (metrics["accuracy_middle"] + metrics["accuracy_high"]) / 2
    assert metrics["accuracy"] == pytest.approx(run["best"]) == parts
    assert all(len(detail["probabilities"]) == 4 for detail in predictions.details)
    write_predictions(tmp_path / "test.jsonl", task, dev, predictions)
    assert read_predictions(task, dev, tmp_path / "test.jsonl").answers == predictions.answers


def test_the_encoder_of_mnli_goes_on_with_rte(small_encoder: Path, small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    train("mnli", tmp_path / "glue", small_encoder, tmp_path / "mnli")
    train("rte", tmp_path / "glue", tmp_path / "mnli", tmp_path / "rte")
    model = Model.from_pretrained(tmp_path / "rte" / "model")
    assert model.config.labels == ("entailment", "not_entailment")
    told = json.loads((tmp_path / "rte" / "run.json").read_text())
    assert told["config"]["begin_from"] == str(tmp_path / "mnli" / "model")


def test_files_tell_their_split(tmp_path: Path) -> None:
    """A file of an official task is read by its own rules, whichever split it is."""
    for name in ("mrpc", "mnli", "cola"):
        WRITERS[name](tmp_path)
    mrpc, num_skipped = read_examples(OFFICIAL["mrpc"], tmp_path / "MRPC" / "msr_paraphrase_train.txt", True)
    assert (len(mrpc), num_skipped) == (6, 0)
    splits = read_official("mnli", tmp_path).splits
    assert read_examples(OFFICIAL["mnli"], tmp_path / "MNLI" / "dev_matched.tsv", True)[0] == splits["dev"]
    assert (
        read_examples(OFFICIAL["mnli"], tmp_path / "MNLI" / "test_mismatched.tsv", False)[0]
        == splits["test_mismatched"]
    )
    assert len(read_examples(OFFICIAL["cola"], tmp_path / "CoLA" / "test.tsv", False)[0]) == 3
