"""Fine-tuned folders in transformers: the same labels by name, with the same probabilities."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from litebert.model.model import Model
from litebert.tasks.features import Features
from litebert.tasks.kinds.questions.spans import combine_all, decode_plain
from litebert.tasks.saved import read_saved_task
from litebert.tasks.task import ChoiceExample, QuestionExample, TaggedExample, TextExample
from litebert.text.tokenizer import Tokenizer
from tests.conftest import need
from tests.parity.peers import quiet
from tests.tasks.small import ask, finetune_here, make_data, make_encoder, make_examples, small_run

transformers = need("transformers")

CLOSE = 1e-4  # of probabilities
LONGER = {"pairs": 80, "multi-label": 140, "regression": 80}  # until they do not always say the same
Trained = Callable[[str], Path]


@pytest.fixture(scope="module")
def trained(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The folder of a model that has learnt a little of a task, by its name in `tests.tasks.small`."""
    home = tmp_path_factory.mktemp("finetuned")
    encoder = make_encoder(home / "encoder", small_tokenizer)

    def find(name: str) -> Path:
        out = home / name
        if not out.exists():
            data = make_data(name)
            finetune_here(
                data, out, small_run(data, encoder, small_tokenizer, steps=LONGER.get(name, 50)), small_tokenizer
            )
        return out / "model"

    return find


def make_pipeline(kind: str, folder: Path, **settings: Any) -> Any:
    with quiet():
        return transformers.pipeline(kind, model=str(folder), device="cpu", **settings)  # type: ignore[call-overload]


def open_peer(kind: type, folder: Path) -> tuple[Any, Any]:
    """A model and a tokenizer of transformers, found by what the folder says of itself."""
    with quiet():
        return kind.from_pretrained(folder).eval(), transformers.AutoTokenizer.from_pretrained(folder)  # type: ignore[attr-defined]


def read_texts(examples: Any) -> list[TextExample]:
    assert all(isinstance(example, TextExample) for example in examples)
    return list(examples)


def as_shares(said: list[Any]) -> dict[str, float]:
    """Probabilities by name; of a single text they come in one more list."""
    entries = said[0] if isinstance(said[0], list) else said
    return {entry["label"]: entry["score"] for entry in entries}


@pytest.mark.parametrize("name", ["classification", "pairs", "multi-label"])
def test_text_classification(name: str, trained: Trained) -> None:
    folder = trained(name)
    examples = read_texts(make_examples(name, 24, seed=9))
    task, _, _, answers = ask(folder, examples)
    pipeline = make_pipeline("text-classification", folder, top_k=None)
    asked = [
        example.text if example.pair is None else {"text": example.text, "text_pair": example.pair}
        for example in examples
    ]
    alone = [as_shares(pipeline(text)) for text in asked]
    together = [as_shares(said) for said in pipeline(asked, batch_size=8)]  # with padding
    for number, shares in enumerate(alone):
        assert shares == pytest.approx(answers.details[number]["probabilities"], abs=CLOSE)
        assert shares == pytest.approx(together[number], abs=CLOSE)
        if name == "multi-label":
            found: Any = tuple(label for label in task.labels if shares[label] > 0.5)
        else:
            found = max(shares, key=shares.__getitem__)
        assert found == answers.answers[number]
    assert len(set(answers.answers)) > 1


def test_the_best_label_has_its_name(trained: Trained) -> None:
    """As most people call it."""
    folder = trained("classification")
    examples = read_texts(make_examples("classification", 12, seed=4))
    said = make_pipeline("text-classification", folder)([example.text for example in examples])
    answers = ask(folder, examples)[3]
    assert [entry["label"] for entry in said] == list(answers.answers)
    assert {entry["label"] for entry in said} == {"ashore", "at sea"}


def test_token_classification(trained: Trained) -> None:
    folder = trained("tagging")
    examples = [one for one in make_examples("tagging", 20, seed=9) if isinstance(one, TaggedExample)]
    task, features, outputs, answers = ask(folder, examples)
    pipeline = make_pipeline("token-classification", folder, ignore_labels=[])
    for number, example in enumerate(examples):
        tokens = {entry["index"]: entry for entry in pipeline(" ".join(example.words))}
        assert len(tokens) == features.row_lengths[number] - 2
        shares = torch.from_numpy(outputs[number]).softmax(-1).max(-1).values.tolist()
        for position, tag, share in zip(features.parts[number], answers.answers[number], shares, strict=True):
            assert tokens[position]["entity"] == tag
            assert tokens[position]["score"] == pytest.approx(share, abs=CLOSE)
    assert {tag for tags in answers.answers for tag in tags} == {*task.labels}


def test_regression(trained: Trained) -> None:
    folder = trained("regression")
    examples = read_texts(make_examples("regression", 16, seed=9))
    answers = ask(folder, examples)[3].answers
    model, tokenizer = open_peer(transformers.AutoModelForSequenceClassification, folder)
    inputs = tokenizer([example.text for example in examples], padding=True, return_tensors="pt")
    with torch.inference_mode():
        scores = model(**inputs).logits
    assert model.config.problem_type == "regression"
    assert scores.shape == (16, 1)
    assert scores[:, 0].tolist() == pytest.approx(answers, abs=1e-5)
    assert max(answers) - min(answers) > 0.5


# --- questions --------------------------------------------------------------------------------------------------------


def read_logits(
    model: Any, features: Features, tokenizer: Any, examples: list[QuestionExample]
) -> tuple[Tensor, Tensor]:
    """What transformers' model says of what its tokenizer makes of the texts."""
    pairs = [example.question for example in examples], [example.context for example in examples]
    inputs = tokenizer(*pairs, padding=True, return_tensors="pt")
    ours = features.collate(range(len(examples)), tokenizer.pad_token_id)
    assert torch.equal(inputs["input_ids"], ours.input_ids)
    assert ours.token_type_ids is not None
    assert torch.equal(inputs["token_type_ids"], ours.token_type_ids)
    with torch.inference_mode():
        output = model(**inputs)
    return output.start_logits, output.end_logits


def test_question_answering(trained: Trained) -> None:
    folder = trained("questions")
    examples = [one for one in make_examples("questions", 16, seed=9) if isinstance(one, QuestionExample)]
    _, features, outputs, answers = ask(folder, examples)
    assert features.num_items == len(examples)  # one window each
    model, tokenizer = open_peer(transformers.AutoModelForQuestionAnswering, folder)
    start, end = read_logits(model, features, tokenizer, examples)
    batch = features.collate(range(len(examples)), tokenizer.pad_token_id)
    with torch.inference_mode():
        ours = Model.from_pretrained(folder)(batch.input_ids, batch.attention_mask, batch.token_type_ids)
    assert batch.attention_mask is not None
    real = batch.attention_mask.bool()
    for found, theirs in ((ours.start_logits, start), (ours.end_logits, end)):
        assert found is not None
        torch.testing.assert_close(found[real], theirs[real], atol=1e-5, rtol=0)
    windows = read_saved_task(folder).windows
    assert windows is not None
    scores = decode_plain(features.parts, start.numpy(), end.numpy(), windows)
    theirs_said = combine_all(examples, features.parts, scores, windows)
    assert [one.answer() for one in theirs_said] == list(answers.answers)
    for one, own in zip(theirs_said, outputs, strict=True):
        assert one.candidates[0].probability == pytest.approx(own.candidates[0].probability, abs=CLOSE)
    # The best span is also what one reads off the tokenizer's own offsets.
    offsets = tokenizer(
        [example.question for example in examples],
        [example.context for example in examples],
        return_offsets_mapping=True,
    )["offset_mapping"]
    for row, example in enumerate(examples):
        mask = torch.from_numpy(features.parts[row].answer_mask)
        first = int(start[row, : len(mask)].masked_fill(~mask, -np.inf).argmax())
        last = int(end[row, : len(mask)].masked_fill(~mask, -np.inf).argmax())
        if last >= first:
            text = example.context[offsets[row][first][0] : offsets[row][last][1]]
            assert text.strip() == answers.answers[row]


def test_multiple_choice(trained: Trained) -> None:
    folder = trained("choice")
    examples = [one for one in make_examples("choice", 20, seed=9) if isinstance(one, ChoiceExample)]
    _, _, outputs, answers = ask(folder, examples)
    model, tokenizer = open_peer(transformers.AutoModelForMultipleChoice, folder)
    for number, example in enumerate(examples):
        asked = [example.question.replace("_", option) for option in example.options]
        inputs = tokenizer([example.passage] * len(asked), asked, padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**{name: tensor[None] for name, tensor in inputs.items()}).logits[0]
        assert logits.tolist() == pytest.approx(outputs[number].tolist(), abs=1e-5)
        assert int(logits.argmax()) == answers.answers[number]
    assert {len(scores) for scores in outputs} == {2, 3, 4}
