"""Fine-tuning on the command line, as a user goes it."""

import csv
import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from litebert.tasks.task import TextExample
from tests.commands import fails, run_here
from tests.tasks.small import make_examples

QUICK = ("--batch", 16, "--lr", 5e-3, "--max-length", 40)


def write_table(file: Path, count: int, seed: int) -> Path:
    with file.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["what was said", "who"])
        for example in make_examples("classification", count, seed):
            assert isinstance(example, TextExample)
            table.writerow([example.text, example.label])
    return file


@pytest.fixture(scope="module")
def home(small_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables and two runs on them."""
    folder = tmp_path_factory.mktemp("tables")
    train, dev = write_table(folder / "train.csv", 160, 1), write_table(folder / "dev.csv", 40, 2)
    columns = ("--text", "what was said", "--label", "who")
    out = folder / "runs"
    done = run_here(
        "finetune",
        train,
        "--dev",
        dev,
        *columns,
        "--model",
        small_encoder,
        "--steps",
        60,
        "--seeds",
        2,
        *QUICK,
        "-o",
        out,
    )
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert "median of 2 seeds" in done.output
    return folder


def test_a_small_model_learns_from_a_large_one_and_from_texts_without_labels(
    home: Path, small_encoder: Path, tmp_path: Path
) -> None:
    few, texts = write_table(tmp_path / "few.csv", 12, 7), tmp_path / "texts.csv"
    rows = [one.text for one in make_examples("classification", 160, 8) if isinstance(one, TextExample)]
    texts.write_text("\n".join(["what was said", *(f'"{row}"' for row in rows)]) + "\n", encoding="utf-8")
    asked = ("finetune", few, "--dev", home / "dev.csv", "--text", "what was said", "--label", "who", "--steps", 60)
    asked = (*asked, *QUICK, "--model", small_encoder, "-o", tmp_path / "run", "--unlabelled", texts)
    assert "--unlabelled needs a --teacher" in fails(*asked)
    done = run_here(*asked, "--teacher", home / "runs" / "seed-0", "--json")
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert json.loads(done.stdout)["splits"]["dev"]["accuracy"] > 0.9
    lines = tmp_path / "texts.txt"
    lines.write_text("\n".join(rows[:20]), encoding="utf-8")
    other = (*asked[:-3], tmp_path / "other", "--unlabelled")
    again = run_here(*other, lines, "--teacher", home / "runs" / "seed-0", "--steps", 1, "--json")
    assert again.exit_code == 0, again.output + repr(again.exception)
    assert "is not there" in fails(*other, tmp_path / "none.txt", "--teacher", home / "runs" / "seed-0")
    assert "none" in fails(*other, lines, "--teacher", tmp_path / "none")


def test_a_run_leaves_figures_answers_and_a_page(home: Path) -> None:
    summary = json.loads((home / "runs" / "seeds.json").read_text(encoding="utf-8"))
    assert summary["splits"]["dev"]["median"] > 0.9
    assert summary["splits"]["dev"]["failed"] == []
    seed = home / "runs" / "seed-1"
    evaluation = json.loads((seed / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluation["splits"]["dev"]["accuracy"] == summary["splits"]["dev"]["seeds"]["1"]
    answers = [json.loads(line) for line in (seed / "predictions-dev.jsonl").read_text(encoding="utf-8").splitlines()]
    right = sum(answer["prediction"] == answer["label"] for answer in answers)
    assert right / len(answers) == evaluation["splits"]["dev"]["accuracy"]
    assert "<svg" in (seed / "report.html").read_text(encoding="utf-8")
    assert "## Evaluation" in (seed / "model" / "README.md").read_text(encoding="utf-8")


def test_answers_on_standard_input_and_their_score(home: Path, tmp_path: Path) -> None:
    model = home / "runs" / "seed-0"
    asked = run_here("predict", model, input="two sailors crossed the bridge.\nnobody painted good advice.\n")
    rows = [json.loads(line) for line in asked.stdout.splitlines()]
    assert [row["prediction"] for row in rows] == ["at sea", "ashore"]
    assert sum(rows[0]["probabilities"].values()) == pytest.approx(1, abs=1e-4)
    out = tmp_path / "answers.tsv"
    assert run_here("predict", model, home / "dev.csv", "-o", out).exit_code == 0
    columns = ("--text", "what was said", "--label", "who")
    scored = run_here("score", home / "dev.csv", *columns, "--predictions", out, "--json")
    evaluated = run_here("evaluate", model, "--data", home / "dev.csv", "--json")
    assert json.loads(scored.stdout)["metrics"] == json.loads(evaluated.stdout)["metrics"]


def test_an_ensemble_answers_like_a_model(home: Path, tmp_path: Path) -> None:
    members = [home / "runs" / f"seed-{seed}" for seed in (0, 1)]
    made = run_here("ensemble", *members, "--data", home / "dev.csv", "--all", "-o", tmp_path / "both", "--json")
    assert made.exit_code == 0, made.output + repr(made.exception)
    said = json.loads(made.stdout)
    assert len(said["members"]) == 2
    evaluated = json.loads(run_here("evaluate", tmp_path / "both", "--data", home / "dev.csv", "--json").stdout)
    assert evaluated["metrics"]["accuracy"] == said["metrics"][-1]["accuracy"]


def test_what_was_held_out_is_found_again(home: Path, small_encoder: Path, tmp_path: Path) -> None:
    columns = ("--text", "what was said", "--label", "who")
    out = tmp_path / "run"
    words = ("finetune", home / "train.csv", *columns, "--model", small_encoder, "--steps", 4, *QUICK, "-o", out)
    assert run_here(*words).exit_code == 0
    kept = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))["splits"]["dev"]
    said = json.loads(run_here("evaluate", out, "--data", home / "train.csv", "--held-out", "--json").stdout)
    assert (said["num_examples"], said["metrics"]) == (16, kept)
    both = run_here("ensemble", out, out, "--data", home / "train.csv", "--held-out", "-o", tmp_path / "both", "--json")
    assert json.loads(both.stdout)["metrics"][0]["accuracy"] == kept["accuracy"]
    with_dev = home / "runs" / "seed-0"
    for model, file in ((with_dev, home / "train.csv"), (out, home / "dev.csv")):  # these have been learnt from
        assert "did not hold these out" in fails("evaluate", model, "--data", file, "--held-out")


def test_the_ladder(home: Path, small_encoder: Path, tmp_path: Path) -> None:
    columns = ("--text", "what was said", "--label", "who")
    files = (home / "train.csv", "--test", home / "dev.csv")
    words = (*files, *columns, "--model", small_encoder, "--steps", 40, *QUICK, "-o", tmp_path / "ladder")
    done = run_here("compare", *words, "--json")
    assert done.exit_code == 0, done.output + repr(done.exception)
    said: dict[str, Any] = json.loads(done.stdout)
    scores = {row["name"]: row["score"] for row in said["rows"]}
    simple = ["majority", "bag-of-words", "tf-idf", "word2vec", "n-gram"]
    names = [
        *simple,
        "vectors",
        "vectors+tf-idf",
        "encoder from scratch",
        "pretrained encoder",
        "pretrained encoder+tf-idf",
    ]
    assert list(scores) == names
    assert (said["split"], said["metric"]) == ("test", "accuracy")
    assert said == json.loads((tmp_path / "ladder" / "compare.json").read_text(encoding="utf-8"))
    assert scores["majority"] < 0.7 < scores["tf-idf"]
    assert all(row["train_seconds"] >= 0 and row["texts_per_second"] > 0 for row in said["rows"])
    assert "pretrained encoder" in (tmp_path / "ladder" / "compare.html").read_text(encoding="utf-8")
    assert "choose from majority" in fails("compare", *words, "--rungs", "gpt")


def test_runs_of_another_recipe_are_not_taken_over(home: Path, small_encoder: Path) -> None:
    files = (home / "train.csv", "--dev", home / "dev.csv", "--text", "what was said", "--label", "who")
    again = (*files, "--model", small_encoder, "--seeds", 2, *QUICK, "-o", home / "runs", "--resume")
    assert "train.steps 60 instead of 61" in fails("finetune", *again, "--steps", 61)
    assert "already holds a run" in fails("finetune", *again[:-1], "--steps", 60)
    done = run_here("finetune", *again, "--steps", 60)  # nothing is left to do but to say what came out
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert "median of 2 seeds" in done.output


def test_wishes_that_cannot_be_granted(home: Path, small_encoder: Path, tmp_path: Path) -> None:
    files = (home / "train.csv", "--text", "what was said", "--label", "who", "--model", small_encoder)
    wishes = {
        ("--lr", 0): "--lr",
        ("--lr", -1): "--lr",
        ("--max-length", 5000): "this encoder has 64 positions",
        ("--plain-head",): "--plain-head",
        ("--resume", "-o", tmp_path / "none"): "holds no run",
        ("--epochs", 1, "--budget", "5s"): "leave one out",
    }
    for words, said in wishes.items():
        assert said in fails("finetune", *files, *words)
    assert not (tmp_path / "none").exists()


def test_a_comparison_on_dev_is_not_chosen_by_dev(home: Path, small_encoder: Path, tmp_path: Path) -> None:
    files = (home / "train.csv", "--dev", home / "dev.csv", "--text", "what was said", "--label", "who")
    words = ("--model", small_encoder, "--steps", 4, *QUICK, "--rungs", "pretrained encoder", "-o", tmp_path)
    done = run_here("compare", *files, *words, "--json")
    assert done.exit_code == 0, done.output + repr(done.exception)
    assert json.loads(done.stdout)["split"] == "dev"
    about = json.loads((tmp_path / "pretrained-encoder" / "seed-0" / "run.json").read_text(encoding="utf-8"))
    assert about["examples"] == {"train": 144, "dev": 16}
    assert (tmp_path / "pretrained-encoder" / "seed-0" / "report.html").is_file()


def test_what_is_wrong_is_said_in_a_sentence(home: Path, small_encoder: Path, tmp_path: Path) -> None:
    model = ("--model", small_encoder)
    assert "neither a file nor a task" in fails("finetune", "no-such", *model)
    assert "say where sst-2's official files lie" in fails("finetune", "sst-2", *model)
    assert "'text'" in fails("finetune", home / "train.csv", *model)
    assert "there is no folder" in fails("evaluate", tmp_path / "none", "--data", home / "dev.csv")
    assert "has no task.json" in fails("evaluate", small_encoder, "--data", home / "dev.csv")
    columns = ("--text", "what was said", "--label", "who")
    preset = ("--model", "albert-mini")
    assert "is a preset without a vocabulary" in fails("finetune", home / "train.csv", *columns, *preset)
    both = ("--epochs", 1, "--steps", 1)
    assert "leave one out" in fails("finetune", home / "train.csv", *columns, *model, *both)
    bad = tmp_path / "bad.csv"
    bad.write_text(
        "what was said,who\nnobody,ashore\n,at sea\ntwo sailors,at sea\nnobody,ashore,more\n", encoding="utf-8"
    )
    assert f"{bad}, line 3" in fails("finetune", bad, *columns, *model)
    strange = tmp_path / "strange.csv"
    strange.write_text("what was said,who\nnobody,on the moon\n", encoding="utf-8")
    assert f"{strange}, line 2" in fails("finetune", home / "train.csv", "--dev", strange, *columns, *model)
    assert "standard input is empty" in fails("predict", home / "runs" / "seed-0", input="")


def test_what_was_made_of_a_file_is_said_before_it_is_learnt(home: Path, small_encoder: Path, tmp_path: Path) -> None:
    columns = ("--text", "what was said", "--label", "who")
    words = ("--model", small_encoder, "--steps", 2, *QUICK, "-o", tmp_path / "run")
    said = run_here("finetune", home / "train.csv", *columns, *words)
    assert "classification, 2 labels; 144 examples to learn from, 16 for development" in said.stderr
    (tmp_path / "own.csv").write_text("text,label\n" + "".join(f"text {n},label {n}\n" for n in range(20)))
    said = run_here(
        "finetune", tmp_path / "own.csv", "--model", small_encoder, "--steps", 1, *QUICK, "-o", tmp_path / "own"
    )
    assert "nearly every example has a label of its own: is 'label' the right column?" in said.stderr
    assert "This model is no better: it has not learnt." in said.stdout
    words = ("--model", small_encoder, "--steps", 1, *QUICK, "-o", tmp_path / "same")
    said = run_here("finetune", home / "dev.csv", "--dev", home / "dev.csv", *columns, *words)
    assert "development examples are those to learn from" in said.stderr


def test_several_runs_do_not_go_into_the_folder_of_one(home: Path, small_encoder: Path, tmp_path: Path) -> None:
    words = ("finetune", home / "train.csv", "--text", "what was said", "--label", "who", "--model", small_encoder)
    single = home / "runs" / "seed-0"
    assert "is the folder of a single run" in fails(*words, "--seeds", 2, "-o", single)
    assert "holds no run" in fails(*words, "--seeds", 2, "--resume", "-o", tmp_path / "none")


def test_a_folder_without_a_model_says_what_it_holds(home: Path, tmp_path: Path) -> None:
    assert "holds several seeds: name one, such as" in fails("predict", home / "runs", home / "dev.csv")
    (tmp_path / "run.json").write_text("{}")
    assert "has no model yet" in fails("predict", tmp_path, home / "dev.csv")


def test_a_destination_is_looked_at_before_the_answers_are_worked_out(home: Path, tmp_path: Path) -> None:
    model = home / "runs" / "seed-0"
    for destination in (("-o", tmp_path / "a.csv"), ("-o", tmp_path), ("--submission", tmp_path / "glue")):
        with mock.patch("litebert.inference.load.Pipeline.answer_examples", side_effect=AssertionError):
            assert fails("predict", model, home / "dev.csv", *destination)


def test_others_column_names_are_understood(home: Path, tmp_path: Path) -> None:
    model = home / "runs" / "seed-0"
    (tmp_path / "new.csv").write_text("text\ntwo sailors crossed the bridge.\n")
    (row,) = (json.loads(line) for line in run_here("predict", model, tmp_path / "new.csv").stdout.splitlines())
    assert row["prediction"] == "at sea"


def test_predictions_that_are_no_labels_are_said(home: Path, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("At Sea\n" * 40)
    said = run_here("score", home / "dev.csv", "--text", "what was said", "--label", "who", "-p", tmp_path / "p.txt")
    assert said.exit_code == 0
    assert "40 of 40 predictions are labels that" in said.stderr
