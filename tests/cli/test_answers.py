"""Fine-tuned models answer files of every kind on the command line; what would be ignored is refused."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from litebert.inference.load import load
from litebert.model.model import Model
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.options import WindowConfig
from litebert.tasks.readers.sources import OFFICIAL
from litebert.tasks.saved import SavedTask
from litebert.tasks.task import Columns, Task, TextExample
from litebert.text.tokenizer import Tokenizer
from tests.commands import fails, run_here
from tests.conftest import small_config
from tests.tasks.readers.tables import write

TAGGING = Task(name="names", kind="tagging", labels=("B-X", "O"), metrics=("entity_f1",), columns=Columns())
MOOD = Task(
    name="mood",
    kind="classification",
    labels=("glad", "sad"),
    metrics=("accuracy",),
    columns=Columns(text="2", label="1"),
)
QUESTIONS = Task(name="mine", kind="questions", metrics=("f1", "exact"), is_pair=True, has_unanswerable=True)
MNLI_HEADER = "index\tsentence1\tsentence2"


@pytest.fixture(scope="module")
def models(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models that have learnt nothing, and remember their tasks."""
    home = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    for task in (OFFICIAL["sst-2"], OFFICIAL["mnli"], TAGGING, MOOD, QUESTIONS):
        kind = kind_of(task)
        changes = {"labels": task.labels, "problem_type": kind.problem_type}
        shape = small_config(vocab_size=small_tokenizer.vocab_size, max_positions=64, num_layers=1, **changes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # transformers has no such head for questions
            Model(shape, kind.head(task)).save_pretrained(home / task.name, small_tokenizer)
        windows = WindowConfig(max_length=40, stride=8, max_query=16) if task.kind == "questions" else None
        for name, text in SavedTask(task=task, max_length=40, windows=windows).as_files().items():
            (home / task.name / name).write_text(text, encoding="utf-8")
    return home


def test_own_files_for_an_official_model(models: Path, tmp_path: Path) -> None:
    rows = [("a good film", 1), ("a bad film", 0)]
    files = [
        write(tmp_path, "my.tsv", "sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows)),
        write(tmp_path, "my.csv", "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows)),
        write(tmp_path, "my.jsonl", "".join(json.dumps({"text": text, "label": n}) + "\n" for text, n in rows)),
    ]
    lines = run_here("predict", models / "sst-2", input="a good film\na bad film\n").stdout
    assert len(lines.splitlines()) == 2
    for file in files:
        assert run_here("predict", models / "sst-2", file).stdout == lines
        said = json.loads(run_here("evaluate", models / "sst-2", "-d", file, "--json").stdout)
        assert said["num_examples"] == 2


def test_lines_are_answered_as_they_come(models: Path, tmp_path: Path) -> None:
    texts = [f"film number {number}" for number in range(150)]  # more than a first block
    file = write(tmp_path, "many.txt", "".join(f"{text}\n\n" for text in texts))
    rows = [json.loads(line) for line in run_here("predict", models / "sst-2", file).stdout.splitlines()]
    assert [(row["id"], row["text"]) for row in rows] == [(str(2 * n), text) for n, text in enumerate(texts)]
    pipeline = load(models / "sst-2")
    assert [row["prediction"] for row in rows] == [one.label for one in pipeline.predict(texts)]
    done = run_here("predict", models / "sst-2", file, "-o", tmp_path / "out.jsonl")
    assert "150 answers" in done.stderr
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()] == rows
    table = run_here("predict", models / "sst-2", file, "-o", tmp_path / "out.tsv")  # whose columns all rows decide
    assert "150 answers" in table.stderr

    asked = []

    def give() -> Iterator[TextExample]:
        for number, text in enumerate(texts):
            asked.append(number)
            yield TextExample(str(number), text)

    blocks = pipeline.answer_stream(give())
    some, predictions = next(blocks)
    assert len(asked) == len(some) == len(predictions.answers) < len(texts)
    assert sum(len(some) for some, _ in blocks) + len(some) == len(texts)


def test_a_bad_line_leaves_no_half_file(models: Path, tmp_path: Path) -> None:
    lines = ["a good film"] * 100 + ['{"no": "text"}']
    file = write(tmp_path, "bad.txt", "\n".join(lines))
    assert "line 101" in fails("predict", models / "sst-2", file, "-o", tmp_path / "out.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]


def test_files_without_a_header_or_a_suffix(models: Path, tmp_path: Path) -> None:
    lines = "glad\ta good film\nsad\ta bad film\n"
    bare, named = write(tmp_path, "new", lines), write(tmp_path, "new.tsv", "Mood\tFilm\n" + lines)
    answers = run_here("predict", models / "mood", named).stdout  # by the numbers of its columns
    assert len(answers.splitlines()) == 2
    assert run_here("predict", models / "mood", bare, "--no-header").stdout == answers
    assert run_here("predict", models / "mood", bare, "--no-header", "--format", "tsv").stdout == answers
    said = json.loads(run_here("evaluate", models / "mood", "-d", bare, "--no-header", "--json").stdout)
    assert said["num_examples"] == 2
    predictions = write(tmp_path, "p.txt", "glad\nglad\n")
    options = ("--no-header", "--text", "2", "--label", "1", "--json")
    assert json.loads(run_here("score", bare, "-p", predictions, *options).stdout)["metrics"]["accuracy"] == 0.5
    assert "without a header, columns are named 1 to 2" in fails("score", bare, "-p", predictions, "--no-header")
    assert "--no-header is for files of your own" in fails("score", "cola", "-p", predictions, "--no-header")
    assert "there is no format 'xls'" in fails("predict", models / "mood", bare, "--format", "xls")
    assert "gone.csv is not there: check its name" in fails("score", "gone.csv", "-p", predictions)


def test_a_submission_is_named_by_its_file(models: Path, tmp_path: Path) -> None:
    files = {"test_mismatched": "MNLI-mm.tsv", "test_matched": "MNLI-m.tsv", "diagnostic": "AX.tsv"}
    for name, wanted in files.items():
        file = write(tmp_path, f"{name}.tsv", f"{MNLI_HEADER}\n4\tone\ttwo\n")
        done = run_here("predict", models / "mnli", file, "--submission", tmp_path / name)
        assert done.exit_code == 0, done.exception
        assert [path.name for path in (tmp_path / name).iterdir()] == [wanted]


def test_conll_in_a_text_file(models: Path, tmp_path: Path) -> None:
    file = write(tmp_path, "new.txt", "Anna B-X\nran O\n\nShe O\n")
    rows = [json.loads(line) for line in run_here("predict", models / "names", file).stdout.splitlines()]
    assert [len(row["prediction"]) for row in rows] == [2, 1]
    assert json.loads(run_here("evaluate", models / "names", "-d", file, "--json").stdout)["num_examples"] == 2
    (row,) = (
        json.loads(line) for line in run_here("predict", models / "names", input="Anna B-X\n").stdout.splitlines()
    )
    assert len(row["prediction"]) == 2


def test_questions_in_json_lines(models: Path, tmp_path: Path) -> None:
    line = json.dumps({"id": "q", "question": "Who?", "context": "Anna ran."}) + "\n"
    (row,) = run_here("predict", models / "mine", write(tmp_path, "q.jsonl", line)).stdout.splitlines()
    assert json.loads(row)["id"] == "q"
    asked = {"id": "q", "question": "Who?", "answers": [{"text": "Anna", "answer_start": 0}]}
    gold = {"data": [{"paragraphs": [{"context": "Anna ran.", "qas": [asked]}]}]}
    said = run_here("evaluate", models / "mine", "-d", write(tmp_path, "gold.json", json.dumps(gold))).stdout
    assert "null odds above which the model says that there is no answer" in said
    assert "is a folder: name a file of mine's examples" in fails("predict", models / "mine", tmp_path)


def test_bad_records_are_told(models: Path, tmp_path: Path) -> None:
    file = write(tmp_path, "my.csv", "text,label\na,1\n,0\nb,0\n")
    done = run_here("predict", models / "sst-2", file, "--skip-bad")
    assert "1 bad records were left out" in done.stderr
    assert len(done.stdout.splitlines()) == 2
    words = ("-d", file, "--all", "-o", tmp_path / "all", "--skip-bad")
    assert "1 bad records were left out" in run_here("ensemble", models / "sst-2", models / "sst-2", *words).stderr


def test_figures_are_named_by_their_file_and_spare_a_run(models: Path, tmp_path: Path) -> None:
    file = write(tmp_path, "autumn.csv", "text,label\na,1\nb,0\n")
    out = tmp_path / "out"
    assert run_here("evaluate", models / "sst-2", "-d", file, "-o", out).exit_code == 0
    assert list(json.loads((out / "evaluation.json").read_text())["splits"]) == ["autumn"]
    assert (out / "predictions-autumn.jsonl").is_file()
    (out / "run.json").write_text("{}")
    assert "is the folder of a run" in fails("evaluate", models / "sst-2", "-d", file, "-o", out)


def test_options_that_would_be_ignored(models: Path, tmp_path: Path) -> None:
    file = write(tmp_path, "my.csv", "text,label\na,1\nb,0\n")
    model = models / "sst-2"
    both = ("-o", tmp_path / "a.jsonl", "--submission", tmp_path / "b")
    assert "-o and --submission" in fails("predict", model, file, *both)
    for words in (("predict", model, file), ("predict", model), ("evaluate", model, "-d", file)):
        assert "--split chooses a file of a folder" in fails(*words, "--split", "dev", input="a\n")
    answers = write(tmp_path, "p.txt", "1\n0\n")
    assert "--split chooses" in fails("score", "sst-2", "-d", file, "-p", answers, "--split", "dev")
    assert "--data is for tasks with official files" in fails("score", file, "-d", tmp_path, "-p", answers)
    assert "--kind is for files of your own" in fails("score", "sst-2", "-d", file, "-p", answers, "--kind", "choice")
    encoder = ("--model", "albert-mini")
    for option in ("--dev", "--test", "--kind", "--text", "--pair", "--label", "--options", "--id"):
        told = fails("finetune", "sst-2", "-d", tmp_path, *encoder, option, "classification")
        assert f"{option} is for files of your own, and sst-2 has official ones" in told
    assert "--data is for tasks with official files" in fails("finetune", file, "--data", tmp_path, *encoder)


def score(gold: Path, answers: Path, *words: object) -> dict[str, float]:
    done = run_here("score", gold, "-p", answers, "--json", *words)
    assert done.exit_code == 0, done.exception
    metrics: dict[str, float] = json.loads(done.stdout)["metrics"]
    return metrics


def test_a_file_of_right_answers_need_not_hold_every_class(tmp_path: Path) -> None:
    gold = write(tmp_path, "gold.csv", "text,label\na,cat\nb,dog\nc,cat\nd,dog\n")
    assert score(gold, write(tmp_path, "p.txt", "cat\ndog\ncow\ndog\n"))["accuracy"] == 0.75
    one = write(tmp_path, "one.csv", "text,label\na,cat\nb,cat\n")
    assert score(one, write(tmp_path, "q.txt", "cat\ndog\n"))["accuracy"] == 0.5
    assert score(one, write(tmp_path, "q.txt", "cat\ncat\n"))["accuracy"] == 1
    numbers = write(tmp_path, "numbers.csv", "text,label\na,2\nb,3\n")
    assert score(numbers, write(tmp_path, "n.txt", "2\n1\n"))["accuracy"] == 0.5
    tags = write(tmp_path, "gold.conll", "Anna B-X\nran O\n")
    assert score(tags, write(tmp_path, "t.txt", "B-Y O\n"))["accuracy"] == 0.5
    assert "an index, where the labels are cat, dog: write names" in fails(
        "score", gold, "-p", write(tmp_path, "i.txt", "0\n1\n0\n1\n")
    )


def test_a_separator_of_labels(tmp_path: Path) -> None:
    gold = write(tmp_path, "gold.csv", 'text,label\na,"x, y|z"\nb,z\n')
    answers = write(tmp_path, "p.txt", "z|x, y\nw\n")
    metrics = score(gold, answers, "--kind", "multi-label", "--separator", "|")
    assert metrics["accuracy"] == 0.5
    assert metrics["micro_f1"] == pytest.approx(2 / 3)


def test_classify_and_tag_texts_that_are_typed_or_piped(models: Path, tmp_path: Path) -> None:
    pipeline = load(models / "mood")
    expected = pipeline.classify(["the river", "two sailors"])
    file = write(tmp_path, "texts.txt", "the river\n\ntwo sailors\n")
    shown = run_here("classify", models / "mood", "the river", "--json").stdout
    assert json.loads(shown) == [{"text": "the river", **vars(expected[0])}]
    lines = run_here("classify", models / "mood", "--file", file).stdout.splitlines()
    assert lines == [
        f"{one.label} {one.probability:.1%}  {text}"
        for text, one in zip(["the river", "two sailors"], expected, strict=True)
    ]
    (tags,) = json.loads(run_here("tag", models / "names", "two sailors", "--json").stdout)
    assert tags["words"] == ["two", "sailors"]
    words = [word if name == "O" else f"{word}/{name}" for word, name in zip(tags["words"], tags["tags"], strict=True)]
    assert run_here("tag", models / "names", "two sailors").stdout.split() == words
    assert "cannot tag words" in fails("tag", models / "mood", "a text")
    assert "name texts" in fails("classify", models / "mood")
    assert "none.txt" in fails("classify", models / "mood", "-f", tmp_path / "none.txt")
    assert "holds no text" in fails("classify", models / "mood", "-f", write(tmp_path, "empty.txt", ""))


def test_a_text_without_any_label_is_said_so(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    task = Task(name="topics", kind="multi-label", labels=("a", "b"), metrics=("accuracy",))
    changes = {"labels": task.labels, "problem_type": "multi_label_classification"}
    shape = small_config(vocab_size=small_tokenizer.vocab_size, max_positions=64, num_layers=1, **changes)
    model = Model(shape, "sequence-classification")
    with torch.no_grad():
        model.heads["classifier"].linear.bias.copy_(torch.tensor([-9.0, -9.0]))
    folder = model.save_pretrained(tmp_path / "topics", small_tokenizer)
    for name, text in SavedTask(task=task, max_length=40).as_files().items():
        (folder / name).write_text(text, encoding="utf-8")
    assert run_here("classify", folder, "the river").stdout == "none  the river\n"
    long = run_here("classify", folder, "the river " * 60)
    assert "longer than the 40 tokens" in long.output
    assert "Warning" not in long.output


def test_answer_looks_into_a_file(models: Path, tmp_path: Path) -> None:
    text = "Two sailors crossed the bridge in 1984."
    file = write(tmp_path, "letter.txt", text)
    (found,) = json.loads(run_here("answer", models / "mine", "When?", "--context", file, "--json").stdout)
    assert found["question"] == "When?"
    assert text[found["begin"] : found["end"]] == found["text"]
    assert (found["text"] or "(no answer)") in run_here("answer", models / "mine", "When?", "-c", file).stdout
    assert "is not there" in fails("answer", models / "mine", "When?", "-c", tmp_path / "none.txt")


def test_order_asks_both_ways_round(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    torch.manual_seed(0)
    shape = small_config(vocab_size=small_tokenizer.vocab_size, initializer_range=0.5)
    folder = Model(shape, "pretraining").save_pretrained(tmp_path / "model", small_tokenizer)
    first, second = "two sailors crossed the bridge", "nobody measured three apples"
    pipeline = load(folder)
    assert pipeline.order(first, second) == pytest.approx(1 - pipeline.order(second, first), abs=1e-6)
    encoded = small_tokenizer.encode([first], [second], max_length=shape.max_positions)
    inputs = {name: torch.from_numpy(one) for name, one in encoded.arrays().items()}
    other = small_tokenizer.encode([second], [first], max_length=shape.max_positions)
    turned = {name: torch.from_numpy(one) for name, one in other.arrays().items()}
    with torch.inference_mode():
        ours, theirs = (pipeline.model(**one).sop_logits.softmax(-1)[0, 0].item() for one in (inputs, turned))
    assert load(folder).order(first, second) == pytest.approx((ours + 1 - theirs) / 2, abs=1e-5)
    shown = json.loads(run_here("order", folder, first, second, "--json").stdout)
    assert shown["probability"] == pytest.approx(pipeline.order(first, second), abs=1e-5)
    likely = first if shown["probability"] >= 0.5 else second
    assert run_here("order", folder, first, second).stdout.strip().endswith(f"comes first: {likely}")
