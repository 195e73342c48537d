"""The report says what a run left behind, whatever state that is in, and nothing of it gets out of its place."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from litebert.errors import FolderError, RequestError
from litebert.folders import PARTIAL
from litebert.reports.pretraining import read_run, render_report, write_report
from tests.work import assert_linear

ABOUT: dict[str, Any] = {
    "format": 1,
    "kind": "litebert pretraining",
    "machine": {"cpu": "a processor", "memory_bytes": 25_000_000_000},
    "corpus": {"folder": "my corpus", "train_tokens": 1_000_000},
    "config": {
        "model": {"family": "albert", "num_layers": 4, "parameters": 3_120_000},
        "train": {"stages": [{"until": 0.5, "depth": 1}, {"until": 1.0, "depth": 2}]},
        "optim": {"lr": 0.00176, "betas": [0.9, 0.999]},
    },
    "baselines": {"num_masked": 7000, "unigram": 0.045, "ngram": 0.141},
}


def step(number: int, **changes: Any) -> dict[str, Any]:
    loss = 3 + 5 / (1 + number / 50)
    values = {"loss": loss + 0.69, "mlm_loss": loss, "sop_loss": 0.69, "learning_rate": 0.001}
    values |= {"tokens_per_second": 8000, "hardware_share": 0.61, "depth": 1 + (number > 200), "length": 64}
    return {"kind": "step", "step": number, "seconds": number / 2, "tokens": number * 4096, **values, **changes}


def evaluation(number: int, **changes: Any) -> dict[str, Any]:
    values = {"mlm_loss": 3.2, "mlm_accuracy": number / 2000, "sop_loss": 0.6, "sop_accuracy": 0.625}
    return {"kind": "evaluation", "step": number, "seconds": number / 2, "tokens": number * 4096, **values, **changes}


def samples(number: int, text: str = "the old [MASK] sat", first: str = "dog") -> dict[str, Any]:
    sample = {"text": text, "answer": "cat", "guesses": [[first, 0.21], ["cat", 0.08]]}
    return {"kind": "samples", "step": number, "seconds": number / 2, "samples": [sample]}


def event(number: int, what: str, words: str = "") -> dict[str, Any]:
    return {"kind": "event", "step": number, "seconds": number / 2, "what": what, "words": words}


def normal_rows() -> list[dict[str, Any]]:
    rows = [event(0, "began")]
    for number in range(10, 401, 10):
        rows.append(step(number))
        if number % 100 == 0:
            rows += [evaluation(number), samples(number)]
    return [*rows, event(400, "finished")]


def write_run(folder: Path, rows: list[dict[str, Any]], tail: str = "", about: dict[str, Any] | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(ABOUT if about is None else about))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)
    return folder


def render(tmp_path: Path, rows: list[dict[str, Any]], tail: str = "", about: dict[str, Any] | None = None) -> str:
    return render_report(read_run(write_run(tmp_path / "run", rows, tail, about)))


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, ids, text."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_finished_run(tmp_path: Path) -> None:
    page = Page(render(tmp_path, normal_rows()))
    assert "ALBERT, 4 layers, 3,120,000 parameters; a corpus of 1M tokens." in page.text
    assert "Finished: step 400, 1.64M tokens, 3 min, 8,192 tokens/s." in page.text
    for figure in ("20.0 %", "62.5 %", "3.200", "61.0 %", "1.64 epochs of 1M", "always the most frequent token 4.5 %"):
        assert figure in page.text
    for title in ("Masked-LM loss", "Sentence-order accuracy", "Learning rate", "Tokens per second"):
        assert title in page.text
    assert "1 × 64" in page.text
    assert "2 × 64" in page.text
    assert re.search(r"What went wrong\s+Nothing\.", page.text)
    assert "--resume" not in page.text


def test_metrics_of_earlier_versions_are_read_by_the_names_of_today(tmp_path: Path) -> None:
    names = {"mlm": "words", "sop": "sentence"}
    old = [{re.sub("^(mlm|sop)_", lambda m: names[m[1]] + "_", key): row[key] for key in row} for row in normal_rows()]
    assert "words_loss" in old[1]
    assert render(tmp_path / "old" / "mini", old) == render(tmp_path / "new" / "mini", normal_rows())


def test_metrics_at_the_depth_of_the_stage_stand_beside_those_at_full_depth(tmp_path: Path) -> None:
    staged = {"stage_mlm_accuracy": 0.125, "stage_mlm_loss": 2.5}
    # The last stage is at full depth, and has no metrics of its own.
    rows = [row | staged if row["kind"] == "evaluation" and row["step"] < 400 else row for row in normal_rows()]
    content = render(tmp_path / "a", rows)
    for title, label in (("Masked-LM loss", "held-out at the stage"), ("Masked-LM accuracy", "at the stage")):
        figure = content.split(f"<h3>{title}</h3>")[1].split("</figure>")[0]
        assert f">{label}'s depth</text>" in figure
        assert "1 × 64" in figure
    assert "depth of its stage" not in content
    assert "12.5 % at the depth of its stage" in render(tmp_path / "d", [row for row in rows if row["step"] < 400])
    same = [
        row | {"stage_mlm_accuracy": row["mlm_accuracy"]} if "mlm_accuracy" in row else row for row in normal_rows()
    ]
    assert "depth of its stage" not in render(tmp_path / "b", same)
    assert "at full depth" not in render(tmp_path / "c", normal_rows())


def test_a_few_steps_are_drawn_as_they_are(tmp_path: Path) -> None:
    losses = [9.0, 2.0, 2.2, 1.9, 2.1, 8.0]
    content = render(tmp_path / "a", [step(number, mlm_loss=loss) for number, loss in enumerate(losses, 1)])
    figure = content.split("<h3>Masked-LM loss</h3>")[1].split("</figure>")[0]
    assert "smoothed" not in figure
    line = re.search(r'<path d="(M[^"]*)"[^>]*style="fill: none; stroke: #3d7fd9', figure)
    heights = [float(height) for height in re.findall(r"[ML] [0-9.]+ ([0-9.]+)", line[1] if line else "")]
    assert len(heights) == len(losses)
    scale = (heights[1] - heights[0]) / (losses[0] - losses[1])
    for height, loss in zip(heights, losses, strict=True):  # nothing is averaged
        assert height - heights[0] == pytest.approx((losses[0] - loss) * scale, abs=0.01)
    top = min(float(height) for height in re.findall(r'<use [^>]*y="([0-9.]+)"', figure))
    assert min(heights) >= top - 20  # nothing is cut off
    assert "smoothed" in render(tmp_path / "b", [step(number) for number in range(1, 100)])


def test_configuration_is_flat(tmp_path: Path) -> None:
    content = render(tmp_path, normal_rows())
    for cells in ("optim.lr</td><td>0.00176", "train.stages.2.depth</td><td>2", "optim.betas</td><td>0.9, 0.999"):
        assert cells in content
    assert "machine.memory_bytes</td><td>25.0 GB" in content


def test_samples_show_how_guesses_change(tmp_path: Path) -> None:
    content = render(
        tmp_path, [samples(number, first="dog" if number < 500 else "cat") for number in range(0, 1000, 10)]
    )
    page = Page(content)
    assert [f"step {number}" in page.text for number in (0, 250, 500, 740, 990)] == [True] * 5
    assert content.count("<th>step") == 5
    assert page.text.count("cat 21.0 % ✓") == 3


def test_a_piece_that_is_a_space_can_be_seen(tmp_path: Path) -> None:
    row = {"text": "a[MASK]b", "answer": "▁", "guesses": [["▁", 0.5], [" ", 0.25]]}
    text = Page(render(tmp_path, [{"kind": "samples", "step": 1, "samples": [row]}])).text
    for shown in ("right: ␣", "␣ 50.0 % ✓", "␣ 25.0 %"):
        assert shown in text


def test_a_run_is_called_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mini").mkdir()
    for folder, name in ((tmp_path / "large", "large"), (tmp_path / "mini" / "run", "mini")):
        assert f"<h1>Pretraining run {name}</h1>" in render_report(read_run(write_run(folder, [])))


def test_a_single_step_makes_no_curve(tmp_path: Path) -> None:
    text = Page(render(tmp_path, [step(10), evaluation(10)])).text
    assert "Too few steps for a curve." in text
    assert "Too few evaluations for a curve." in text
    assert "The thin line" not in text


def test_a_killed_run_says_how_to_go_on(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path / "run", normal_rows()[:-1], tail='{"kind": "step", "st'))
    assert (run.state, run.num_damaged, run.last["step"]) == ("running or cut off", 0, 400)
    text = Page(render_report(run)).text
    assert "Running or cut off" in text
    assert f"litebert pretrain 'my corpus' --out {tmp_path / 'run'} --resume" in text


@pytest.mark.parametrize(
    ("whats", "state"),
    [
        ([], "running or cut off"),
        (["began", "interrupted"], "interrupted"),
        (["began", "interrupted", "resumed"], "running or cut off"),
        (["began", "finished", "saved"], "finished"),
    ],
)
def test_the_state_is_the_last_one(tmp_path: Path, whats: list[str], state: str) -> None:
    run = read_run(write_run(tmp_path / "run", [event(number, what) for number, what in enumerate(whats)]))
    assert run.state == state


def test_damaged_lines_are_counted_and_unknown_kinds_ignored(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [step(10)], tail='{"ki\n[1]\n\n\0\0\n{"kind": "new", "step": 99}\n')
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b'"\xff"\n' + b"[" * 100_000 + b"\n" + json.dumps(step(20)).encode())
    run = read_run(folder)
    assert (run.num_damaged, run.last["step"], len(run.steps)) == (5, 20, 2)
    assert "metrics.jsonl, left out: 5" in render_report(run)


def test_steps_done_again_replace_the_old_ones(tmp_path: Path) -> None:
    rows = [*(step(number) for number in range(10, 101, 10)), evaluation(100, mlm_accuracy=0.9), event(60, "resumed")]
    run = read_run(write_run(tmp_path / "run", [*rows, step(60, loss=1), step(70, loss=1)]))
    assert [row["step"] for row in run.steps] == [10, 20, 30, 40, 50, 60, 70]
    assert (run.evaluations, run.last["step"]) == ([], 70)


def test_troubles_are_listed(tmp_path: Path) -> None:
    rows = [*normal_rows(), event(250, "rolled back", "Losses were not finite."), event(300, "saved", "Saved.")]
    before, after = Page(render(tmp_path, rows)).text.split("What went wrong")[1].split("All 4 events")
    assert "Losses were not finite." in before
    assert "Saved." not in before
    assert "Saved." in after


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), 10**400, "7", True, [1], {}])
@pytest.mark.parametrize("only_those", [False, True])
def test_values_that_are_no_numbers(tmp_path: Path, value: Any, only_those: bool) -> None:
    bad = dict.fromkeys(("loss", "mlm_loss", "tokens_per_second", "hardware_share", "learning_rate"), value)
    rows = [step(number, **bad) for number in range(1, 5)] + [evaluation(5, mlm_loss=value, mlm_accuracy=value)]
    rows += [] if only_those else [step(number) for number in range(6, 60)] + [evaluation(60)]
    content = render(tmp_path, rows)
    assert "The loss of 4 recorded steps was not a number." in content
    assert "nan" not in re.sub(r"<style>.*?</style>", "", content, flags=re.DOTALL).lower()


def test_an_outlier_does_not_flatten_the_rest(tmp_path: Path) -> None:
    spiked = render(tmp_path, [step(number, mlm_loss=1e30 if number == 200 else 4.0) for number in range(1, 400)])
    assert "1e30" not in spiked
    assert ">4.0</text>" in spiked or ">4</text>" in spiked


def test_no_sentence_task(tmp_path: Path) -> None:
    without = {"kind", "step", "seconds", "tokens", "mlm_loss", "mlm_accuracy"}
    rows = [
        {key: row[key] for key in row if key in without} if row["kind"] == "evaluation" else row
        for row in normal_rows()
    ]
    text = Page(render(tmp_path, rows)).text
    assert "Sentence-order" not in text
    assert "Masked-LM accuracy" in text


HOSTILE = '</style></table><script>alert("1")</script><img src=x onerror=alert(1)>&\ud800'


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    about = {"config": {HOSTILE: {"x": HOSTILE}, "model": {"family": HOSTILE}}, "corpus": {"folder": HOSTILE}}
    rows = [step(1), samples(1, text=HOSTILE, first=HOSTILE), event(1, HOSTILE, HOSTILE), event(2, "skipped", HOSTILE)]
    folder = write_run(tmp_path / "<script>x", [*rows, event(3, "resumed", HOSTILE)], about=about)
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert not page.tags & {"script", "img", "link", "iframe", "object"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.text.count('<script>alert("1")</script>') >= 8


def test_nothing_is_loaded_from_elsewhere(tmp_path: Path) -> None:
    content = render(tmp_path, normal_rows())
    page = Page(content)
    assert "://" not in content
    assert "@import" not in content
    assert not {name for name, _ in page.attributes} & {"src", "srcset", "data", "action"}
    assert all(str(value).startswith("#") for name, value in page.attributes if name == "href")


def test_ids_are_unique_and_known(tmp_path: Path) -> None:
    content = render(tmp_path, normal_rows())
    ids = [value for name, value in Page(content).attributes if name == "id"]
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', content))
    assert len(ids) == len(set(ids))
    assert used
    assert used <= set(ids)


def test_rendering_is_deterministic(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", normal_rows())
    here = write_report(folder).read_bytes()
    code = "import sys, pathlib; from litebert.reports.pretraining import write_report as write; "
    code += "write(pathlib.Path(sys.argv[1]))"
    (folder / "report.html").unlink()
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    assert (folder / "report.html").read_bytes() == here


def test_settings_of_matplotlib_do_not_matter_and_stay(tmp_path: Path) -> None:
    import matplotlib

    run = read_run(write_run(tmp_path / "run", normal_rows()))
    expected = render_report(run)
    with matplotlib.rc_context({"font.size": 30.0, "svg.fonttype": "path", "lines.linewidth": 9.0}):
        assert render_report(run) == expected
        assert matplotlib.rcParams["font.size"] == 30.0


@pytest.mark.parametrize("rows", [[], None])
def test_nothing_recorded_yet(tmp_path: Path, rows: list[dict[str, Any]] | None) -> None:
    folder = write_run(tmp_path / "run", [])
    if rows is None:
        (folder / "metrics.jsonl").unlink()
    assert "Nothing has been recorded yet." in write_report(folder).read_text(encoding="utf-8")


@pytest.mark.parametrize("rows", [[{"kind": kind} for kind in ("step", "evaluation", "samples", "event")], [step(1)]])
def test_almost_nothing_is_known(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    assert "<h1>" in render(tmp_path, rows, about={})
    broken = {name: [None, 1] for name in ("machine", "corpus", "config", "baselines", "started")}
    assert "<h1>" in render_report(read_run(write_run(tmp_path / "other", rows, about=broken)))


def test_guesses_of_any_shape(tmp_path: Path) -> None:
    for guesses in (None, "x", [None, ["a"], ["b", None], [None, 0.5]]):
        folder = tmp_path / repr(guesses)[:4]
        row = {"kind": "samples", "step": 1, "samples": [None, {"text": ["t"], "guesses": guesses}]}
        assert "What it fills in" in render_report(read_run(write_run(folder, [row])))


def test_wrong_folders_are_explained(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="is no folder; name a folder"):
        read_run(tmp_path / "nowhere")
    with pytest.raises(FolderError, match=r"has no run\.json; name a folder"):
        read_run(tmp_path)
    write_run(tmp_path / "seed-1", [])
    with pytest.raises(FolderError, match=r"holds runs in folders; name one, such as .*seed-1"):
        read_run(tmp_path)
    with pytest.raises(FolderError, match="not a pretraining run"):
        read_run(write_run(tmp_path / "other", [], about={"kind": "something else"}))
    folder = write_run(tmp_path / "run", [])
    (folder / "metrics.jsonl").unlink()
    (folder / "metrics.jsonl").mkdir()
    with pytest.raises(FolderError, match="not an ordinary file"):
        read_run(folder)


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", normal_rows())
    out = tmp_path / "elsewhere.html"
    assert write_report(folder, out) == out
    assert out.read_text(encoding="utf-8").endswith("</html>\n")
    (tmp_path / "taken").mkdir()
    for path in (tmp_path / "no" / "folder.html", tmp_path / "taken"):
        with pytest.raises(RequestError, match="cannot write"):
            write_report(folder, path)
    assert not list(tmp_path.rglob(f"*{PARTIAL}"))


def test_without_matplotlib_the_user_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_run(tmp_path / "run", normal_rows())
    monkeypatch.setitem(sys.modules, "litebert.reports.charts", None)
    with pytest.raises(RequestError, match="pip install matplotlib"):
        write_report(folder)
    assert not (folder / "report.html").exists()


def test_a_long_run_is_read_quickly_and_thinned(tmp_path: Path) -> None:
    def read(size: int) -> Callable[[], Any]:
        folder = write_run(tmp_path / f"run-{size}", [step(number) for number in range(1, size + 1)])
        return lambda: read_run(folder)

    assert_linear(read, 12_500)
    run = read_run(tmp_path / "run-100000")
    content = render_report(run)
    assert 500 <= len(run.steps) <= 2000
    assert run.steps[-1]["step"] == 100_000
    gaps = {int(b["step"] - a["step"]) for a, b in zip(run.steps[:-2], run.steps[1:-1], strict=True)}
    assert len(gaps) == 1
    assert len(content) < 1_000_000


def test_reading_needs_neither_torch_nor_matplotlib() -> None:
    code = "import litebert.reports.pretraining, sys; print([n for n in ('torch', 'matplotlib') if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
