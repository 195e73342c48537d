"""GLUE's tasks are read from their official folders, traps and all."""

from pathlib import Path

import pytest

from litebert.errors import RequestError
from litebert.tasks.readers.glue import GLUE, read_glue
from litebert.tasks.task import DataError, Recipe, TextExample

BOM = b"\xef\xbb\xbf"
MNLI_COLUMNS = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
    "\tsentence1\tsentence2"
)
MNLI_ROW = "{0}\t1\t1n\tfiction\t( a )\t( b )\t(ROOT a)\t(ROOT b)\tOne {0}.\tTwo {0}."
STSB_COLUMNS = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"


def write(folder: Path, name: str, *lines: str, end: str = "\n", start: bytes = b"") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_bytes(start + "".join(line + end for line in lines).encode())
    return file


def facts(examples: object) -> list[tuple[object, ...]]:
    assert isinstance(examples, list)
    assert all(isinstance(example, TextExample) for example in examples)
    return [(example.id, example.text, example.pair, example.label) for example in examples]


def test_the_table_of_tasks() -> None:
    assert list(GLUE) == ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli"]
    assert {name: task.metrics for name, task in GLUE.items() if task.metrics != ("accuracy",)} == {
        "cola": ("matthews",),
        "mrpc": ("accuracy", "f1"),
        "sts-b": ("pearson", "spearman"),
        "qqp": ("accuracy", "f1"),
    }
    assert [name for name, task in GLUE.items() if not task.is_pair] == ["cola", "sst-2"]
    assert [name for name, task in GLUE.items() if task.kind == "regression"] == ["sts-b"]
    assert {task.labels for task in GLUE.values()} == {
        (),
        ("0", "1"),
        ("entailment", "not_entailment"),
        ("contradiction", "entailment", "neutral"),
    }
    assert all(task.name == name for name, task in GLUE.items())


@pytest.mark.parametrize(
    ("name", "lr", "batch_size", "dropout", "steps", "warmup_steps"),
    [
        ("cola", 1e-5, 16, 0.0, 5336, 320),
        ("sts-b", 2e-5, 16, 0.0, 3598, 214),
        ("sst-2", 1e-5, 32, 0.0, 20935, 1256),
        ("mnli", 3e-5, 128, 0.0, 10000, 1000),
        ("qnli", 1e-5, 32, 0.0, 33112, 1986),
        ("qqp", 5e-5, 128, 0.1, 14000, 1000),
        ("rte", 3e-5, 32, 0.1, 800, 200),
        ("mrpc", 2e-5, 32, 0.0, 800, 200),
        ("wnli", 2e-5, 16, 0.1, 2000, 250),
    ],
)
def test_recipes(name: str, lr: float, batch_size: int, dropout: float, steps: int, warmup_steps: int) -> None:
    assert GLUE[name].recipe == Recipe(
        lr=lr, batch_size=batch_size, dropout=dropout, steps=steps, warmup_steps=warmup_steps, max_length=512
    )


def test_cola_has_a_header_in_its_test_set_only(tmp_path: Path) -> None:
    write(tmp_path / "CoLA", "train.tsv", 'gj04\t1\t\tHe said "no.', "gj04\t0\t*\tBooks the sent.")
    write(tmp_path / "CoLA", "dev.tsv", "bc01\t1\t\tIt is fine.", end="\r\n")
    write(tmp_path / "CoLA", "test.tsv", "index\tsentence", "0\tWho?", "1\tSentence.")
    data = read_glue("cola", tmp_path)
    assert list(data.splits) == ["train", "dev", "test"]
    assert facts(data.splits["train"]) == [("0", 'He said "no.', None, "1"), ("1", "Books the sent.", None, "0")]
    assert facts(data.splits["dev"]) == [("0", "It is fine.", None, "1")]
    assert facts(data.splits["test"]) == [("0", "Who?", None, None), ("1", "Sentence.", None, None)]
    assert data.splits["test"][1].location == f"{tmp_path / 'CoLA' / 'test.tsv'}, line 3"
    assert data.splits["train"][1].location.endswith("line 2")
    assert (data.task, data.num_skipped) == (GLUE["cola"], 0)


def test_sst_2(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "sentence\tlabel", "hide new secretions \t0", '"quoted" start\t1', "")
    write(tmp_path, "test.tsv", "index\tsentence", "17\tuneasy mishmash .")
    data = read_glue("sst-2", tmp_path)
    assert facts(data.splits["train"]) == [
        ("0", "hide new secretions ", None, "0"),
        ("1", '"quoted" start', None, "1"),
    ]
    assert facts(data.splits["test"]) == [("17", "uneasy mishmash .", None, None)]


@pytest.mark.parametrize("names", [("train.tsv", "test.tsv"), ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt")])
@pytest.mark.parametrize("start", [b"", BOM])
def test_mrpc_with_and_without_a_byte_order_mark(tmp_path: Path, names: tuple[str, str], start: bytes) -> None:
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    write(tmp_path / "MRPC", names[0], header, '1\t70\t71\tCalled "the witness".\tA witness".', start=start, end="\r\n")
    write(tmp_path / "MRPC", names[1], header.replace("Quality", "index"), "5\t8\t9\tX y.\tY x.", start=start)
    data = read_glue("mrpc", tmp_path)
    assert facts(data.splits["train"]) == [("0", 'Called "the witness".', 'A witness".', "1")]
    assert facts(data.splits["test"]) == [("5", "X y.", "Y x.", None)]


def test_a_test_set_that_has_labels_keeps_them(tmp_path: Path) -> None:
    write(tmp_path, "test.tsv", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t1\t2\tA.\tB.")
    assert facts(read_glue("mrpc", tmp_path).splits["test"]) == [("0", "A.", "B.", "0")]


def test_sts_b(tmp_path: Path) -> None:
    row = "{}\tmain\tMSRvid\t2012\t0001\tnone\tnone\tA plane.\tAn air plane.{}"
    write(tmp_path, "dev.tsv", STSB_COLUMNS + "\tscore", row.format(7, "\t3.800"), row.format(8, "\t0"))
    write(tmp_path, "test.tsv", STSB_COLUMNS, row.format(0, ""))
    data = read_glue("sts-b", tmp_path)
    assert facts(data.splits["dev"]) == [("7", "A plane.", "An air plane.", 3.8), ("8", "A plane.", "An air plane.", 0)]
    assert facts(data.splits["test"]) == [("0", "A plane.", "An air plane.", None)]


def test_mnli_has_two_of_each_and_leaves_out_what_has_no_gold_label(tmp_path: Path) -> None:
    folder = tmp_path / "MNLI"
    write(folder, "train.tsv", f"{MNLI_COLUMNS}\tlabel1\tgold_label", f"{MNLI_ROW.format(0)}\tneutral\tneutral")
    wide = f"{MNLI_COLUMNS}\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label"
    five = "\tneutral\tneutral\tentailment\tentailment\tcontradiction\t{}"
    rows = [MNLI_ROW.format(i) + five.format(label) for i, label in enumerate(["-", "entailment", "contradiction"])]
    write(folder, "dev_matched.tsv", wide, *rows)
    write(folder, "dev_mismatched.tsv", wide, rows[2])
    write(folder, "test_matched.tsv", MNLI_COLUMNS, MNLI_ROW.format(5))
    write(folder, "test_mismatched.tsv", MNLI_COLUMNS, MNLI_ROW.format(6))
    data = read_glue("mnli", tmp_path)
    assert {split: facts(examples) for split, examples in data.splits.items()} == {
        "train": [("0", "One 0.", "Two 0.", "neutral")],
        "dev": [("1", "One 1.", "Two 1.", "entailment"), ("2", "One 2.", "Two 2.", "contradiction")],
        "dev_mismatched": [("2", "One 2.", "Two 2.", "contradiction")],
        "test": [("5", "One 5.", "Two 5.", None)],
        "test_mismatched": [("6", "One 6.", "Two 6.", None)],
    }
    assert data.num_skipped == 0


def test_a_dash_is_a_label_in_no_other_task(tmp_path: Path) -> None:
    file = write(tmp_path, "train.tsv", "index\tsentence1\tsentence2\tlabel", "0\tA.\tB.\t-")
    with pytest.raises(DataError) as caught:
        read_glue("rte", tmp_path)
    assert str(caught.value).startswith(f"{file}, line 2, has the label '-', which is none of entailment, not_entailm")


@pytest.mark.parametrize("name", ["qnli", "rte", "wnli"])
def test_columns_are_found_by_name(tmp_path: Path, name: str) -> None:
    text, pair = ("question", "sentence") if name == "qnli" else ("sentence1", "sentence2")
    label = GLUE[name].labels[1]
    write(tmp_path, "train.tsv", f"label\t{pair}\tindex\t{text}", f"{label}\tSecond.\t12\tFirst?")
    write(tmp_path, "test.tsv", f"index\t{text}\t{pair}", "3\tWhat?\tThat.")
    data = read_glue(name, tmp_path)
    assert facts(data.splits["train"]) == [("12", "First?", "Second.", label)]
    assert facts(data.splits["test"]) == [("3", "What?", "That.", None)]


def test_the_broken_lines_of_qqp_are_counted_and_no_error(tmp_path: Path) -> None:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
    rows = ['4\t1\t2\t"Is ""it""?"\tWhat?\t1', "5\t1\t2\tToo short?", "6\t1\t2\tWhy?\t\t0", "7\t1\t2\tA?\tB?\t0"]
    file = write(tmp_path / "QQP", "train.tsv", header, *rows)
    write(tmp_path / "QQP", "test.tsv", "id\tquestion1\tquestion2", "0\t\t", "1\tB?\tC?")
    data = read_glue("qqp", tmp_path)
    assert facts(data.splits["train"]) == [("4", '"Is ""it""?"', "What?", "1"), ("7", "A?", "B?", "0")]
    assert data.num_skipped == 2
    assert facts(data.splits["test"]) == [("0", "", "", None), ("1", "B?", "C?", None)]  # a submission needs all
    write(tmp_path / "QQP", "train.tsv", header, *rows, "8\t1\t2\tA?\tB?\t2")
    with pytest.raises(DataError) as caught:
        read_glue("qqp", tmp_path)
    assert str(caught.value).startswith(f"{file}, line 6, has the label '2', which is none of 0, 1")
    write(tmp_path / "QQP", "test.tsv", "id\tquestion1\tquestion2", "0\tA?")
    with pytest.raises(DataError, match=r"test\.tsv, line 2, has 2 cells instead of 3"):
        read_glue("qqp", tmp_path, splits=["test"])


@pytest.mark.parametrize(
    ("name", "row", "fault"),
    [
        ("rte", "1\tA.\tB.\tperhaps", "has the label 'perhaps', which is none of entailment, not_entailment: mend it"),
        ("rte", "1\tA.\tB.\t", "has the label '', which is none of"),
        ("rte", "1\tA.\tentailment", "has 3 cells instead of 4"),
        ("rte", "1\tA.\tB.\tC.\tentailment", "has 5 cells instead of 4"),
        ("rte", "1\t \tB.\tentailment", "has no text in 'sentence1'"),
        ("rte", "1\tA.\t\tentailment", "has no text in 'sentence2'"),
        ("rte", "1\tA.\tB\0.\tentailment", "holds a NUL character"),
        ("sts-b", "1\ta\ta\ta\ta\ta\ta\tA.\tB.\tnan", "has 'nan' for a score, which is no number from 0 to 5"),
        ("sts-b", "1\ta\ta\ta\ta\ta\ta\tA.\tB.\t5.1", "has '5.1' for a score"),
        ("sts-b", "1\ta\ta\ta\ta\ta\ta\tA.\tB.\t-1", "has '-1' for a score"),
        ("sts-b", "1\ta\ta\ta\ta\ta\ta\tA.\tB.\t", "has '' for a score"),
        ("cola", "gj04\t2\t\tA.", "has the label '2', which is none of 0, 1"),
        ("cola", "gj04\t1\tA.", "has 3 cells instead of 4"),
    ],
)
def test_bad_records(tmp_path: Path, name: str, row: str, fault: str) -> None:
    header, good = {
        "rte": ("index\tsentence1\tsentence2\tlabel", "0\tA.\tB.\tentailment"),
        "sts-b": (STSB_COLUMNS + "\tscore", "0\ta\ta\ta\ta\ta\ta\tA.\tB.\t2.5"),
        "cola": ("gj04\t1\t\tFirst.", "gj04\t1\t\tGood."),
    }[name]
    file = write(tmp_path, "train.tsv", header, good, row, good)
    with pytest.raises(DataError) as caught:
        read_glue(name, tmp_path)
    assert str(caught.value).startswith(f"{file}, line 3, {fault}")
    assert str(caught.value).endswith(", or pass --skip-bad to leave such records out and count them")
    data = read_glue(name, tmp_path, skip_bad=True)
    assert data.num_skipped == 1
    lines = [example.location.rpartition(" ")[2] for example in data.splits["train"]]
    assert lines == (["1", "2", "4"] if name == "cola" else ["2", "4"])
    if name == "cola":  # ids are those of the rows, bad ones included
        assert [example.id for example in data.splits["train"]] == ["0", "1", "3"]


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    file = write(tmp_path, "train.tsv", "sentence\tlabel", "good\t1")
    file.write_bytes(file.read_bytes() + "naïve\t1\n".encode("latin-1") + b"fine\t0\n")
    with pytest.raises(DataError, match=r"train\.tsv, line 3, is not UTF-8"):
        read_glue("sst-2", tmp_path)
    data = read_glue("sst-2", tmp_path, skip_bad=True)
    assert (facts(data.splits["train"])[1], data.num_skipped) == (("2", "fine", None, "0"), 1)
    file.write_bytes("sentence\tlabel\ngood\t1\n".encode("utf-16"))
    for skip_bad in (False, True):  # there is nothing to read without a header
        with pytest.raises(DataError, match=r"train\.tsv, line 1, is not UTF-8"):
            read_glue("sst-2", tmp_path, skip_bad=skip_bad)


def test_a_wrong_header(tmp_path: Path) -> None:
    file = write(tmp_path, "train.tsv", "index\tpremise\tsentence2\tlabel", "0\tA.\tB.\tentailment")
    for skip_bad in (False, True):
        with pytest.raises(DataError) as caught:
            read_glue("rte", tmp_path, skip_bad=skip_bad)
        there = "'index', 'premise', 'sentence2', 'label'"
        assert str(caught.value).startswith(f"{file}, line 1, has no column 'sentence1' (there are: {there})")
    write(tmp_path, "train.tsv", "index\tsentence1\tsentence2\tsentence1\tlabel", "0\tA.\tB.\tC.\tentailment")
    with pytest.raises(DataError, match=r"line 1, has 2 columns named 'sentence1'"):
        read_glue("rte", tmp_path)
    write(tmp_path, "train.tsv", "index\tsentence1\tsentence2", "0\tA.\tB.")
    with pytest.raises(DataError, match=r"line 1, has no column 'label'"):
        read_glue("rte", tmp_path)


def test_splits(tmp_path: Path) -> None:
    write(tmp_path, "train.tsv", "sentence\tlabel", "good\t1")
    assert list(read_glue("sst-2", tmp_path).splits) == ["train"]
    with pytest.raises(DataError, match=r"dev\.tsv is not there"):
        read_glue("sst-2", tmp_path, splits=["train", "dev"])
    write(tmp_path, "dev.tsv", "sentence\tlabel", "bad\t7")
    assert list(read_glue("sst-2", tmp_path, splits=["train"]).splits) == ["train"]
    with pytest.raises(RequestError, match="sst-2 has no split 'dev_mismatched': its splits are train, dev, test"):
        read_glue("sst-2", tmp_path, splits=["dev_mismatched"])


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="'sst' is no task of GLUE: choose one of cola, sst-2"):
        read_glue("sst", tmp_path)
    with pytest.raises(DataError, match="holds none of mnli's files"):
        read_glue("mnli", tmp_path / "nowhere")
    for lines in ([], ["sentence\tlabel"], ["sentence\tlabel", "bad\t7"]):
        file = write(tmp_path, "train.tsv", *lines)
        with pytest.raises(DataError) as caught:
            read_glue("sst-2", tmp_path, skip_bad=True)
        assert str(caught.value) == f"{file} has no examples that can be used: get the file again"
