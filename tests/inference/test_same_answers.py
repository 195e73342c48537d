"""One inference: `load(run)`, `litebert predict` and transformers give the same answers, to long texts as well."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litebert.errors import RequestError
from litebert.inference import engine
from litebert.inference.load import Pipeline, TruncationWarning, load
from litebert.tasks.kinds import kind_of
from litebert.tasks.task import ChoiceExample, Example, QuestionExample, TaggedExample, TextExample
from litebert.text.tokenizer import Tokenizer
from tests.commands import run as run_command
from tests.conftest import need
from tests.parity.peers import quiet
from tests.tasks.small import TASKS, ask, finetune_here, make_data, make_encoder, make_examples, small_run

Trained = Callable[[str], Path]
LONG = "two sailors crossed the bridge and nobody measured three apples " * 40


@pytest.fixture(scope="module")
def trained(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The folder of a run on a task of `tests.tasks.small`, by its name."""
    home = tmp_path_factory.mktemp("runs")
    encoder = make_encoder(home / "encoder", small_tokenizer)

    def find(name: str) -> Path:
        out = home / name.replace(" ", "-")
        if not out.exists():
            data = make_data(name)
            finetune_here(data, out, small_run(data, encoder, small_tokenizer, steps=25), small_tokenizer)
        return out

    return find


def as_record(example: Example) -> dict[str, Any]:
    """An example as a user would write it, without its answer."""
    match example:
        case TaggedExample():
            return {"words": list(example.words)}
        case QuestionExample():
            return {"question": example.question, "context": example.context}
        case ChoiceExample():
            return {"passage": example.passage, "question": example.question, "options": list(example.options)}
        case TextExample():
            return {"text": example.text} | ({} if example.pair is None else {"pair": example.pair})


def lengthen(record: dict[str, Any]) -> dict[str, Any]:
    """The same question about a text that no row can hold."""
    if "words" in record:
        return {"words": record["words"] + LONG.split()}
    name = next(key for key in ("context", "passage", "text") if key in record)
    return {**record, name: f"{record[name]} {LONG}"}


@pytest.mark.parametrize("name", TASKS)
def test_torch_and_onnxruntime_answer_alike(name: str, trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    need("onnxruntime")
    examples = make_examples(name, 12, seed=9)
    quick = load(trained(name))
    monkeypatch.setattr(engine, "has_onnx", lambda: False)
    plain_torch = load(trained(name))
    (found, _), (expected, _) = quick.run(examples), plain_torch.run(examples)
    assert "model" not in vars(quick.members[0].engine), "torch answered"
    assert "model" in vars(plain_torch.members[0].engine)
    answers, others = (pipeline.answer_examples(examples).answers for pipeline in (quick, plain_torch))
    assert answers == others or answers == pytest.approx(others, abs=1e-4)
    if isinstance(expected[0], np.ndarray):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)
    texts = ["the river", "two sailors crossed the bridge"]
    np.testing.assert_allclose(quick.embed(texts), plain_torch.embed(texts), atol=1e-5)


@pytest.mark.parametrize("name", TASKS)
def test_load_answers_as_the_command_does(name: str, trained: Trained, tmp_path: Path) -> None:
    folder = trained(name)
    records = [as_record(example) for example in make_examples(name, 12, seed=9)]
    records += [lengthen(record) for record in records[:3]]
    file = tmp_path / "asked.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    result = run_command("predict", folder, file)
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    pipeline = load(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncationWarning)
        together, alone = pipeline.predict(records), [pipeline.predict(record) for record in records]
    assert len(rows) == len(together) == len(records)
    for row, one, other in zip(rows, together, alone, strict=True):
        given = plain(one)
        assert given == row["prediction"] or given == pytest.approx(row["prediction"], abs=1e-5)
        assert plain(other) == given or plain(other) == pytest.approx(given, abs=1e-5)
        assert shares(one) == pytest.approx(shares(other), abs=1e-5)
    is_cut = pipeline.members[0].encode([_example(pipeline, record) for record in records]).cut
    assert {number for number, row in enumerate(rows) if row.get("truncated")} == is_cut
    assert ("read only the beginning" in result.stderr) == bool(is_cut)


def _example(pipeline: Pipeline, record: dict[str, Any]) -> Example:
    from litebert.tasks.readers.sources import columns_of

    return kind_of(pipeline.task).parse_object(pipeline.task, "0", record, columns_of(pipeline.task), "here")


def plain(answer: Any) -> Any:
    """An answer as files have it."""
    for name in ("label", "labels", "tags", "text", "index"):
        if hasattr(answer, name):
            value = getattr(answer, name)
            return list(value) if isinstance(value, tuple) else value
    return answer


def shares(answer: Any) -> list[float]:
    """The probabilities of an answer, if it has some."""
    found = getattr(answer, "probabilities", ())
    return list(found.values()) if isinstance(found, dict) else list(found)


@pytest.mark.parametrize("name", ["classification", "pairs"])
def test_load_answers_as_transformers_does(name: str, trained: Trained) -> None:
    transformers = need("transformers")
    folder = trained(name)
    pipeline = load(folder)
    examples = [example for example in make_examples(name, 8, seed=4) if isinstance(example, TextExample)]
    asked = [(example.text, example.pair) for example in examples] + [
        (LONG, None if examples[0].pair is None else LONG)
    ]
    with quiet():
        peer = transformers.pipeline("text-classification", model=str(folder / "model"), device="cpu", top_k=None)
    limit = {"truncation": True, "max_length": pipeline.members[0].task.max_length}
    for text, pair in asked:
        inputs: Any = text if pair is None else {"text": text, "text_pair": pair}
        said = peer(inputs, **limit)
        theirs = {entry["label"]: entry["score"] for entry in (said[0] if isinstance(said[0], list) else said)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TruncationWarning)
            ours = pipeline.classify(text, pair)
        assert ours.probabilities == pytest.approx(theirs, abs=1e-4)
        assert ours.label == max(theirs, key=theirs.__getitem__)
        assert ours.truncated == (text == LONG)


def test_one_text_gives_one_answer_and_a_list_gives_a_list(trained: Trained) -> None:
    pipeline = load(trained("classification"))
    one = pipeline.classify("two sailors crossed the bridge.")
    assert one.label in pipeline.task.labels
    assert one.probability == max(one.probabilities.values())
    assert sum(one.probabilities.values()) == pytest.approx(1, abs=1e-4)
    assert pipeline.classify(["two sailors crossed the bridge."]) == [one]
    assert pipeline.classify([]) == []
    vector = pipeline.embed("two sailors")
    assert vector.shape == (pipeline.model.config.hidden_size,)
    assert pipeline.embed(["two sailors", "nobody"]).shape == (2, len(vector))
    assert pipeline.embed([]).shape == (0, len(vector))
    np.testing.assert_allclose(pipeline.embed(["nobody at all", "two sailors"])[1], vector, atol=1e-5)


def test_a_mask_that_somebody_types_is_text(trained: Trained) -> None:
    pipeline = load(trained("classification"))
    typed = pipeline.members[0].encode([TextExample("0", "the [MASK] crossed the bridge")])
    assert pipeline.tokenizer.mask_id not in typed.tokens


def test_a_text_that_is_cut_is_said_to_be(trained: Trained) -> None:
    pipeline = load(trained("classification"))
    with pytest.warns(TruncationWarning, match="1 text was longer than the 40 tokens"):
        assert pipeline.classify(LONG).truncated
    with pytest.warns(TruncationWarning, match="2 texts were longer"):
        pipeline.embed([LONG, "nobody", LONG])


def test_load_equals_what_evaluation_sees(trained: Trained) -> None:
    folder = trained("tagging")
    examples = make_examples("tagging", 6, seed=2)
    _, _, _, predictions = ask(folder / "model", examples)
    found = load(folder).tag([list(one.words) for one in examples if isinstance(one, TaggedExample)])
    assert [one.tags for one in found] == list(predictions.answers)


def test_what_is_no_text_is_refused_in_a_sentence(trained: Trained) -> None:
    pipeline = load(trained("classification"))
    for call in (lambda: pipeline.predict(3), lambda: pipeline.embed(None), lambda: pipeline.embed([1])):  # type: ignore[arg-type, call-overload]
        with pytest.raises(RequestError, match="no text"):
            call()
    with pytest.raises(RequestError, match="input 0 is no text"):
        pipeline.classify([1, 2])
    several = pipeline.search(["two sailors", "nobody"], ["nobody", "two sailors"], top=1)
    assert [found[0][0] for found in several] == [1, 0]
