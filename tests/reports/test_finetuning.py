"""The page of a fine-tuned model says what its answers are worth, and shows texts only if asked, and only as text."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from litebert.errors import RequestError
from litebert.reports.finetuning import write_task_report
from litebert.tasks.kinds.description import measure_calibration
from litebert.tasks.metrics import compute_metrics
from litebert.tasks.task import (
    Answer,
    ChoiceExample,
    Example,
    Predictions,
    QuestionExample,
    TaggedExample,
    Task,
    TextExample,
)
from tests.reports.test_pretraining import HOSTILE, Page

SECRET = "kumquat"  # stands in every example's text, and in no label

CLASSES = Task(name="colours", kind="classification", labels=("red", "blue"), metrics=("accuracy", "f1"))
TAGS = Task(name="names", kind="tagging", labels=("O", "B-PER", "I-PER", "B-LOC"), metrics=("entity_f1",))
SQUAD = Task(name="asked", kind="questions", metrics=("f1",), has_unanswerable=True)


def rate(red: float) -> dict[str, Any]:
    return {"probabilities": {"red": red, "blue": round(1 - red, 5)}}


def predict(
    answers: Sequence[Any], details: Sequence[Any] = (), null_odds: Sequence[float] | None = None
) -> Predictions:
    return Predictions(tuple(answers), tuple(details), None if null_odds is None else tuple(null_odds))


def classified() -> tuple[Task, Sequence[Example], Predictions]:
    golds = ["red"] * 3 + ["blue"] * 4
    said = ["red", "red", "blue", "blue", "blue", "blue", "red"]
    shares = [0.95, 0.55, 0.25, 0.05, 0.05, 0.45, 0.95]
    examples = [TextExample(f"t{index}", f"{SECRET} {index}", None, gold) for index, gold in enumerate(golds)]
    return CLASSES, examples, predict(said, [rate(share) for share in shares])


def labelled() -> tuple[Task, Sequence[Example], Predictions]:
    task = Task(name="moods", kind="multi-label", labels=("joy", "fear", "awe"), metrics=("micro_f1",))
    golds = [("joy",), ("joy", "fear"), (), ("fear",)]
    said: list[Any] = [("joy",), ("joy",), ("joy",), ("fear",)]
    examples = [TextExample(f"m{index}", f"{SECRET} {index}", None, gold) for index, gold in enumerate(golds)]
    return task, examples, predict(said, [{"probabilities": {"joy": 0.9, "fear": 0.05, "awe": 0.1}}] * 4)


def numbered() -> tuple[Task, Sequence[Example], Predictions]:
    task = Task(name="likeness", kind="regression", metrics=("pearson",), is_pair=True)
    golds, said = [0.0, 2.5, 5.0, 1.0], [0.5, 2.0, 0.75, 1.0]
    examples = [TextExample(f"n{index}", SECRET, f"{SECRET} too", gold) for index, gold in enumerate(golds)]
    return task, examples, predict(said, [{}] * 4)


def tagged() -> tuple[Task, Sequence[Example], Predictions]:
    words = (SECRET, "met", "Ann", "Lee", "in", "Rome")
    golds = ("O", "O", "B-PER", "I-PER", "O", "B-LOC")
    said: list[Any] = [golds, ("O", "O", "B-PER", "I-PER", "O", "B-PER")]
    examples = [TaggedExample(f"s{index}", words, golds) for index in range(2)]
    return TAGS, examples, predict(said, [{"probabilities": [0.9, 0.9, 0.9, 0.9, 0.9, 0.71]}] * 2)


def asked() -> tuple[Task, Sequence[Example], Predictions]:
    context = f"The {SECRET} grows in Rome and in old Paris."
    rome, paris = Answer("Rome", context.index("Rome")), Answer("old Paris", context.index("old"))
    golds: list[tuple[Answer, ...]] = [(rome,), (paris,), (), ()]
    examples = [QuestionExample(f"q{index}", f"Where {index}?", context, gold) for index, gold in enumerate(golds)]
    details: list[dict[str, Any]] = [{"nbest": [{"text": "Rome", "probability": 0.625}]}] * 4
    return SQUAD, examples, predict(["Rome", "Paris", "", "Rome"], details, [-2.0, -1.0, 3.0, 0.25])


def chosen() -> tuple[Task, Sequence[Example], Predictions]:
    task = Task(name="exams", kind="choice", metrics=("accuracy",))
    golds, said, groups = [0, 1, 1, 2], [0, 1, 2, 0], ["high", "middle", "high", "high"]
    options = ("one way", "two ways", "no way")
    examples = [
        ChoiceExample(f"c{index}", f"{SECRET} {index}", "How?", options, gold, group)
        for index, (gold, group) in enumerate(zip(golds, groups, strict=True))
    ]
    return task, examples, predict(said, [{"probabilities": [0.5, 0.25, 0.25]}] * 4)


KINDS = [classified, labelled, numbered, tagged, asked, chosen]
KINDS_OF_ROWS = ("step", "evaluation")


def write(folder: Path, task: Task, examples: Sequence[Example], answers: Predictions, **options: Any) -> str:
    folder.mkdir(exist_ok=True)
    metrics = compute_metrics(task, examples, answers)
    path = write_task_report(folder, task, examples, answers, metrics, **options)
    assert path == folder / "report.html"
    return path.read_text(encoding="utf-8")


def read_tables(content: str) -> dict[str, list[list[str]]]:
    """The cells of the table under each heading."""
    tables = {}
    for part in content.split("<h2>")[1:]:
        title, _, rest = part.partition("</h2>")
        rows = re.findall(r"<tr>(.*?)</tr>", rest, re.DOTALL)
        cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
        tables[title] = [[re.sub(r"<[^>]+>", "", cell) for cell in row] for row in cells]
    return tables


def begin_run(folder: Path, **about: Any) -> Path:
    folder.mkdir()
    config = {"model": {"family": "albert", "num_layers": 6}, "begin_from": "mini", "task": {"labels": ["x"] * 10_000}}
    base = {"kind": "litebert fine-tuning", "config": config, "examples": {"train": 1200, "dev": 7}}
    majority = {"majority": {"accuracy": 4 / 7, "f1": 0.0}}
    (folder / "run.json").write_text(json.dumps({**base, "baselines": majority, **about}))
    lines = [{"kind": "event", "step": 0, "seconds": 0, "what": "began", "words": ""}]
    for step in range(10, 101, 10):
        lines.append({"kind": "step", "step": step, "seconds": step, "tokens": 100 * step, "loss": 1 / step})
        lines += [{"kind": "evaluation", "step": step, "seconds": step, "accuracy": step / 140}] * (step % 50 == 0)
    lines.append(
        {"kind": "event", "step": 70, "seconds": 70, "what": "rolled back", "words": "Losses were not finite."}
    )
    lines.append({"kind": "event", "step": 100, "seconds": 100, "what": "finished", "words": ""})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_classification_counts_what_is_confused(tmp_path: Path) -> None:
    content = write(tmp_path / "x", *classified())
    tables = read_tables(content)
    assert tables["Confusion matrix"] == [
        ["right ↓ said →", "red", "blue", "recall"],
        ["red", "2", "1", "66.7 %"],
        ["blue", "1", "3", "75.0 %"],
        ["precision", "66.7 %", "75.0 %", ""],
    ]
    mistakes = tables["Worst mistakes"][1:]
    assert mistakes == [
        ["t6", f"{SECRET} 6", "red 95.0 %", "blue 5.0 %"],
        ["t2", f"{SECRET} 2", "blue 75.0 %", "red 25.0 %"],
    ]
    # Bins: 0.95 four times with three right, 0.55 twice and right, 0.75 once and wrong.
    expected = (4 * abs(0.95 - 0.75) + 2 * abs(0.55 - 1) + 1 * 0.75) / 7
    assert f"Expected calibration error {100 * expected:.1f} %" in content
    assert "71.4 %" in Page(content).text


def test_calibration_of_hand_made_bins() -> None:
    bins, error = measure_calibration([(0.0, False), (0.05, True), (0.95, True), (1.0, False)])
    assert bins == [(0.025, 0.5, 2), (0.975, 0.5, 2)]
    assert error == pytest.approx(0.475)
    assert measure_calibration([]) == ([], 0.0)


def test_several_labels(tmp_path: Path) -> None:
    tables = read_tables(write(tmp_path / "x", *labelled()))
    assert tables["By label"][1:] == [
        ["joy", "2", "3", "2", "66.7 %", "100.0 %", "80.0 %"],
        ["fear", "2", "1", "1", "100.0 %", "50.0 %", "66.7 %"],
        ["awe", "0", "0", "0", "–", "–", "–"],
    ]
    # The fear that was missed got 0.05: the model was 0.95 sure of none. Joy that is not there got 0.9.
    assert [row[0] for row in tables["Worst mistakes"][1:]] == ["m1", "m2"]
    assert tables["Worst mistakes"][2][2:] == ["joy 90.0 %", "none"]


def test_numbers_have_the_farthest_first(tmp_path: Path) -> None:
    content = write(tmp_path / "x", *numbered())
    rows = read_tables(content)["Worst mistakes"][1:]
    assert [row[0] for row in rows] == ["n2", "n0", "n1"]
    assert rows[0][2:] == ["0.750", "5.000"]
    assert "Predicted against given scores" in content
    assert "nearly the same" not in content


@pytest.mark.parametrize(("scale", "is_told"), [(0.04, True), (0.06, False), (0.0, True)])
def test_a_model_that_gives_all_the_same_score_is_told_so(tmp_path: Path, scale: float, is_told: bool) -> None:
    task, examples, _ = numbered()
    golds = [example.label for example in examples if isinstance(example, TextExample)]
    said: list[Any] = [2.5 + scale * (gold - 2.5) for gold in golds if isinstance(gold, float)]
    text = Page(write(tmp_path / "x", task, examples, predict(said, [{}] * 4))).text
    assert (f"nearly the same for every text, {min(said):.3f} to {max(said):.3f}" in text) == is_told


def test_tags_by_type(tmp_path: Path) -> None:
    tables = read_tables(write(tmp_path / "x", *tagged()))
    assert tables["By type of name"][1:] == [
        ["LOC", "2", "1", "1", "100.0 %", "50.0 %", "66.7 %"],
        ["PER", "2", "3", "2", "66.7 %", "100.0 %", "80.0 %"],
    ]
    assert tables["Tags that are confused most"][1:] == [["B-LOC", "B-PER", "1", "50.0 %"]]
    assert tables["Worst mistakes"][1:] == [["s1", f"{SECRET} met Ann Lee in Rome", "Rome: B-PER 71.0 %", "B-LOC"]]


def test_questions_by_length_and_by_odds(tmp_path: Path) -> None:
    content = write(tmp_path / "x", *asked())
    tables = read_tables(content)
    assert tables["By words of the right answer"][1:] == [
        ["1", "1", "100.0 %", "100.0 %"],
        ["2", "1", "0.0 %", "66.7 %"],
        ["no answer", "2", "50.0 %", "50.0 %"],
    ]
    assert tables["By words of the context"][1:] == [["0 to 99", "4", "50.0 %", "66.7 %"]]
    assert "Odds that there is no answer" in content
    assert ">threshold</text>" in content
    assert [row[0] for row in tables["Worst mistakes"][1:]] == ["q3", "q1"]
    assert tables["Worst mistakes"][1][2:] == ["Rome 62.5 %null odds 0.250", "no answer"]


@pytest.mark.parametrize(
    ("threshold", "words"),
    [
        (-50.0, "Beyond the threshold, -50.000, the model says that there is no answer. It answers none of the 4"),
        (50.0, "It answers all of the 4 questions. The threshold lies right of the chart."),
        (0.0, "It answers 2 of the 4 questions."),
    ],
)
def test_a_threshold_beyond_the_chart_is_told(tmp_path: Path, threshold: float, words: str) -> None:
    task, examples, answers = asked()
    scores = {"f1": 0.5, "threshold": threshold}
    content = write_task_report(tmp_path, task, examples, answers, scores).read_text(encoding="utf-8")
    assert words in content
    assert (">threshold</text>" in content) == (threshold == 0)
    assert ("left of the chart" in content) == (threshold == -50)
    assert ("right of the chart" in content) == (threshold == 50)


def test_choices_by_group_and_position(tmp_path: Path) -> None:
    tables = read_tables(write(tmp_path / "x", *chosen()))
    assert tables["By group"][1:] == [["high", "3", "33.3 %"], ["middle", "1", "100.0 %"]]
    assert tables["By position of the right option"][1:] == [
        ["1", "1", "100.0 %", "2"],
        ["2", "2", "50.0 %", "1"],
        ["3", "1", "0.0 %", "1"],
    ]
    assert tables["Worst mistakes"][1] == ["c3", f"{SECRET} 3How?", "one way 50.0 %", "no way 25.0 %"]


@pytest.mark.parametrize("make", KINDS)
def test_text_is_shown_only_if_asked(tmp_path: Path, make: Any) -> None:
    assert SECRET in write(tmp_path / "x", *make())
    without = write(tmp_path / "x", *make(), samples=False)
    assert SECRET not in without
    assert "Worst mistakes" not in without
    for text in ("Rome", "one way"):
        assert text not in without


@pytest.mark.parametrize("make", KINDS)
def test_a_page_needs_nothing_else_and_is_always_the_same(tmp_path: Path, make: Any) -> None:
    content = write(tmp_path / "x", *make())
    page = Page(content)
    assert content == write(tmp_path / "y", *make())
    assert "://" not in content
    assert "default-src 'none'" in content
    assert not page.tags & {"script", "img", "link", "iframe", "object"}
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_another_process_writes_the_same_bytes(tmp_path: Path) -> None:
    here = write(tmp_path / "x", *labelled())
    code = "import pathlib, sys; from tests.reports import test_finetuning as t; "
    code += "t.write(pathlib.Path(sys.argv[1]), *t.labelled())"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "y")], check=True, cwd=Path(__file__).parents[2])
    assert (tmp_path / "y" / "report.html").read_text(encoding="utf-8") == here


def test_a_run_shows_how_it_went(tmp_path: Path) -> None:
    task, examples, answers = classified()
    content = write(begin_run(tmp_path / "run"), task, examples, answers)
    text = Page(content).text
    for words in (
        "Task colours",
        "ALBERT, 6 layers; began from mini; examples: 1,200 train, 7 dev.",
        "Finished: step 100",
    ):
        assert words in text
    assert "the most frequent answer alone: 57.1 %" in text
    assert "No better than" not in text
    assert "Training loss" in text
    assert "Metric while training" in text
    assert "Losses were not finite." in text.split("What went wrong")[1].split("All 3 events")[0]
    assert "and 9,950 more" in text


def test_a_run_that_learnt_nothing_is_told_so(tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run", baselines={"majority": {"accuracy": 0.75}})
    assert "No better than the most frequent answer alone" in write(folder, *classified())


def test_a_single_step_makes_no_curve(tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run")
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:2]) + '{"kind": "evaluation", "step": 10, "accuracy": 0.5}\n')
    text = Page(write(folder, *classified())).text
    assert "Too few steps for a curve." in text
    assert "Too few evaluations for a curve." in text
    assert "The thin line" not in text


def test_steps_are_counted_in_whole_numbers(tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run")
    rows = [{"kind": kind, "step": step, "loss": 1, "accuracy": 0.5} for step in (7, 8) for kind in KINDS_OF_ROWS]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    content = write(folder, *classified())
    for title in ("Training loss", "Metric while training"):
        figure = content.split(f"<h3>{title}</h3>")[1].split("</figure>")[0]
        below = re.findall(
            r">([^<]*)</text>", figure.split('id="' + title.lower().replace(" ", "-") + "-matplotlib")[1]
        )
        assert below[: below.index("steps")] == ["7", "8"]


def test_other_folders_have_no_curves(tmp_path: Path) -> None:
    pretrained = begin_run(tmp_path / "other", kind="litebert pretraining")
    for folder in (tmp_path / "plain", pretrained):
        content = write(folder, *classified())
        assert "How it went" not in content
        assert "What went wrong" not in content
        assert "Confusion matrix" in content


@pytest.mark.parametrize("broken", [None, [1], {"majority": [1]}, {"majority": {"accuracy": None}}])
def test_a_run_of_any_shape(tmp_path: Path, broken: Any) -> None:
    about = dict.fromkeys(("config", "examples", "baselines", "machine"), broken)
    folder = begin_run(tmp_path / "run", **about)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(
            '{"kind": "evaluation", "step": 110, "accuracy": NaN}\n{"kind": "step", "loss": "x"}\nnonsense\n{"ki'
        )
    assert "metrics.jsonl, left out: 1" in write(folder, *classified())


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    clean = HOSTILE.replace("\ud800", "")  # names of labels are checked by the task
    task = Task(name=clean, kind="classification", labels=(clean, "b"), metrics=("accuracy",))
    wrong = TextExample(HOSTILE, HOSTILE, HOSTILE, clean)
    pages = [write(tmp_path / "a", task, [wrong], predict(["b"], [{"probabilities": {clean: 0.1, "b": 0.9}}]))]
    tagged_ = TaggedExample(HOSTILE, (HOSTILE,), (HOSTILE,))
    pages.append(write(tmp_path / "b", TAGS, [tagged_], predict([("O",)], [{}])))
    question = QuestionExample(HOSTILE, HOSTILE, HOSTILE, (Answer(HOSTILE, 0),))
    pages.append(write(tmp_path / "c", SQUAD, [question], predict(["onerror"], [{}], [0.0])))
    option = ChoiceExample(HOSTILE, HOSTILE, HOSTILE, (HOSTILE, HOSTILE), 0, HOSTILE)
    choice = Task(name="x", kind="choice", metrics=("accuracy",))
    pages.append(write(tmp_path / "d", choice, [option], predict([1], [{}])))
    for content in pages:
        page = Page(content)
        assert not page.tags & {"script", "img", "link", "iframe", "object"}
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert page.text.count('<script>alert("1")</script>') >= 3


@pytest.mark.parametrize("value", [None, float("nan"), -1.0, 7.0, "0.9", True, [], {}])
def test_probabilities_that_are_none(tmp_path: Path, value: Any) -> None:
    task, examples, answers = classified()
    for details in ({"probabilities": value}, {"probabilities": {"red": value, "blue": value}}, value):
        content = write(tmp_path / "x", task, examples, predict(answers.answers, [details] * 7))
        assert "Calibration" not in content
        assert read_tables(content)["Worst mistakes"][1] == ["t2", f"{SECRET} 2", "blue", "red"]
    assert "Confusion matrix" in write(tmp_path / "x", task, examples, predict(answers.answers, []))


def test_scores_that_are_no_numbers_and_unlabelled_examples(tmp_path: Path) -> None:
    examples = [TextExample("1", SECRET), TextExample("2", SECRET)]
    scores = {"accuracy": float("nan"), "f1": float("inf"), "odd": 0.5}
    page = write_task_report(tmp_path, CLASSES, examples, predict(["red", "red"], [{}, {}]), scores)
    text = Page(page.read_text(encoding="utf-8")).text
    assert re.search(r"accuracy\s*–", text)
    assert "2 of them have no label" in text
    assert SECRET not in text
    assert "0 examples" in write_task_report(tmp_path, CLASSES, [], predict([], []), {}).read_text(encoding="utf-8")
    with pytest.raises(RequestError, match="1 answers to 2 examples"):
        write_task_report(tmp_path, CLASSES, examples, predict(["red"], [{}]), {})


def test_many_labels_and_long_texts_stay_readable(tmp_path: Path) -> None:
    labels = tuple(f"label {number}" for number in range(10_000))
    task = Task(name="many", kind="classification", labels=labels, metrics=("accuracy",))
    long = SECRET + " word" * 200_000
    examples: list[Example] = [TextExample(str(n), long, None, labels[n % 50]) for n in range(200)]
    said: list[Any] = [labels[0 if n % 50 == 7 else n % 50] for n in range(200)]
    content = write(tmp_path / "x", task, examples, predict(said, [{"probabilities": {labels[0]: 0.5}}] * 200))
    assert read_tables(content)["Labels that are confused most"][1:] == [["label 7", "label 0", "4", "100.0 %"]]
    assert len(content) < 200_000
    pages = [write(tmp_path / "x", *parts) for parts in _make_long(labels, long)]
    assert all(len(content) < 300_000 for content in pages)
    assert "The 100 most frequent of 10,000." in pages[0]


def _make_long(labels: tuple[str, ...], long: str) -> list[tuple[Task, Sequence[Example], Predictions]]:
    several = Task(name="many", kind="multi-label", labels=labels, metrics=("micro_f1",))
    words = tuple(["x" * 100_000] * 100)
    return [
        (several, [TextExample("1", long, None, labels[:5000])], predict([labels], [{}])),
        (TAGS, [TaggedExample("1", words, ("O",) * 100)], predict([("B-PER",) * 100], [{}])),
        (SQUAD, [QuestionExample("1", long, long, (Answer(long, 0),))], predict([SECRET], [{}], [0.0])),
    ]


def test_all_right_is_said(tmp_path: Path) -> None:
    task, examples, _ = classified()
    golds = [example.label for example in examples if isinstance(example, TextExample)]
    assert "None: all 7 answers are right." in write(tmp_path / "x", task, examples, predict(golds, [{}] * 7))


def test_without_matplotlib_the_user_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litebert.reports.charts", None)
    with pytest.raises(RequestError, match="pip install matplotlib"):
        write(tmp_path, *classified())
    assert not list(tmp_path.glob("*.html"))
