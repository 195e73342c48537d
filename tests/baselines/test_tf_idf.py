"""Words that are counted beside an encoder: kept in a file, they say what scikit-learn's model of them said."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import litebert
from litebert.baselines.bag_of_words import BagOfWords
from litebert.baselines.linear import LinearClassifier, LinearLabeler
from litebert.baselines.tf_idf import learn_tf_idf
from litebert.errors import FolderError, RequestError
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.questions.sentences import add_ratings, weigh_ratings
from litebert.tasks.kinds.questions.spans import Candidate, Prediction
from litebert.tasks.saved import TASK_FILE, read_saved_task
from litebert.tasks.task import Answer, Dataset, Predictions, QuestionExample, TextExample
from litebert.tasks.tf_idf import TF_IDF_FILE, TF_IDF_WEIGHT, TfIdf, choose_weight
from litebert.text.tokenizer import Tokenizer
from litebert.text.words import Text, find_words
from tests.tasks.small import TASKS, make_data, make_encoder

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "고양이", "我爱"]), max_size=8).map(" ".join)
LABELS = ("x", "y", "z")


def logits(model: TfIdf, texts: list[Text]) -> np.ndarray[Any, Any]:
    return np.stack(model.score(texts))


def keep(model: TfIdf, folder: Path) -> TfIdf:
    (folder / TF_IDF_FILE).write_bytes(model.to_bytes())
    return TfIdf.read(folder / TF_IDF_FILE)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(WORDS, WORDS, st.sampled_from(LABELS)), min_size=1, max_size=20),
    st.booleans(),
    st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5),
)
def test_what_is_kept_answers_like_what_was_learnt(
    examples: list[tuple[str, str, str]], is_pair: bool, others: list[tuple[str, str]]
) -> None:
    def shape(first: str, second: str) -> Text:
        return (first, second) if is_pair else first

    model = LinearClassifier(10.0)
    bags = BagOfWords(model, "tf-idf").fit([shape(*one[:2]) for one in examples], [one[2] for one in examples])
    kept, texts = bags.as_tf_idf(LABELS), [shape(*pair) for pair in others]
    found = logits(kept, texts)
    ranked = np.sort(found, axis=1)
    for answer, row, (second, best) in zip(bags.predict(texts), found, ranked[:, -2:], strict=True):
        assert best - second < 1e-4 or LABELS[int(row.argmax())] == answer
    seen = {one[2] for one in examples}
    assert all(label in seen for label in np.array(LABELS)[found.argmax(1)])


def test_two_labels_differ_by_the_odds_of_the_regression() -> None:
    texts, labels = ["good film", "bad film", "good", "so bad"] * 3, ["no", "yes", "no", "yes"] * 3
    model = LinearClassifier(10.0)
    bags = BagOfWords(model, "tf-idf").fit(texts, labels)
    odds = model._models[0].decision_function(bags._weigh_bags(bags._counter.transform(["good bad", "film"])))
    found = logits(bags.as_tf_idf(("yes", "no")).scaled(2.0), ["good bad", "film"])
    assert np.allclose(found[:, 0] - found[:, 1], 2 * odds, atol=1e-5)


def test_sets_of_labels_have_a_logit_each() -> None:
    texts, labels = ["cat", "cat dog", "dog", "bird"] * 3, [("c", "all"), ("c", "d", "all"), ("d", "all"), ("all",)] * 3
    bags = BagOfWords(LinearLabeler(10.0), "tf-idf").fit(texts, labels)
    found = logits(bags.as_tf_idf(("d", "c", "all", "never")), ["cat", "dog bird", "nothing"])
    answers = [{name for name, logit in zip(("d", "c", "all"), row, strict=False) if logit > 0} for row in found]
    assert answers == [set(one) for one in bags.predict(["cat", "dog bird", "nothing"])]
    assert (found[:, 3] < -2).all()
    assert (found[:, 2] > 2).all()


@pytest.mark.parametrize("name", ["classification", "pairs", "multi-label"])
def test_a_file_keeps_it(name: str, tmp_path: Path) -> None:
    data = make_data(name)
    model = learn_tf_idf(data.task, data.splits["train"])
    texts = [kind_of(data.task).inputs(example) for example in data.splits["dev"]]
    assert model.is_pair == data.task.is_pair
    assert np.allclose(logits(keep(model, tmp_path), texts), logits(model, texts), atol=0.02)


def test_nothing_is_learnt_where_there_are_no_words(tmp_path: Path) -> None:
    examples = [TextExample(str(number), "?!", label=label) for number, label in enumerate(["ashore", "at sea"])]
    model = keep(learn_tf_idf(TASKS["classification"], examples), tmp_path)
    assert np.isfinite(logits(model, ["a text", ""])).all()


def test_examples_without_labels_are_not_learnt_from() -> None:
    data = make_data("classification")
    train = [*data.splits["train"], TextExample("more", "a text of nobody")]
    more, less = (learn_tf_idf(data.task, some) for some in (train, data.splits["train"]))
    assert more.terms == less.terms


def test_numbers_and_tags_have_no_classes() -> None:
    for name in ("regression", "similarity", "tagging", "choice"):
        data = make_data(name)
        with pytest.raises(RequestError, match="--tf-idf is for classes"):
            learn_tf_idf(data.task, data.splits["train"])


def test_rare_classes_count_the_same_if_balanced() -> None:
    texts = ["the sea", *["the land"] * 30]
    examples = [
        TextExample(str(n), text, label="at sea" if "sea" in text else "ashore") for n, text in enumerate(texts)
    ]
    plain, balanced = (learn_tf_idf(TASKS["classification"], examples, balanced=flag) for flag in (False, True))
    assert plain.score(["the"])[0].argmax() == TASKS["classification"].labels.index("ashore")
    sea = TASKS["classification"].labels.index("at sea")
    assert balanced.score(["the"])[0][sea] > plain.score(["the"])[0][sea] + 0.3


@pytest.mark.parametrize("harm", ["cut", "bits", "shape", "infinite", "missing"])
def test_a_damaged_file_is_refused_in_one_sentence(harm: str, tmp_path: Path) -> None:
    model = learn_tf_idf(TASKS["classification"], make_data("classification").splits["train"])
    path = tmp_path / TF_IDF_FILE
    if harm == "shape":
        model = replace(model, idf=model.idf[:-1])
    if harm == "infinite":
        model = replace(model, bias=model.bias * np.inf)
    content = model.to_bytes()
    if harm != "missing":
        path.write_bytes(content[: len(content) // 2] if harm == "cut" else content)
    if harm == "bits":
        path.write_bytes(b"\xff" * 8 + content[8:])
    with pytest.raises(FolderError, match="is damaged") as error:
        TfIdf.read(path)
    assert "\n" not in str(error.value)


# --- how much it weighs -----------------------------------------------------------------------------------------------


def said(right: NDArray[Any], sureness: float, truth: NDArray[Any]) -> NDArray[Any]:
    """Logits of two classes that are right where it is said so."""
    odds = sureness * np.where(right == truth.astype(bool), 1.0, -1.0)
    return np.stack([-odds / 2, odds / 2], axis=1)


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("sureness", [0.5, 2.0, 8.0])
def test_who_is_right_more_often_weighs_more_however_sure_the_other_is(exclusive: bool, sureness: float) -> None:
    random = np.random.default_rng(0)
    truth = random.integers(0, 2, 2000)
    targets = np.eye(2)[truth]
    good, poor = random.random(2000) < 0.9, random.random(2000) < 0.7
    for encoder, words in ((good, poor), (poor, good)):
        said_by_encoder, said_by_words = said(encoder, sureness, truth), said(words, 2.0, truth)
        weight = choose_weight(said_by_encoder, said_by_words, targets, exclusive)
        answers = (said_by_encoder + weight * said_by_words).argmax(1) == truth
        assert answers.mean() >= 0.89, "where they differ, the better one decides"


def test_few_examples_hardly_move_it() -> None:
    assert choose_weight(np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((0, 2)), exclusive=True) == TF_IDF_WEIGHT
    right, wrong, targets = np.array([[-3.0, 3.0]]), np.array([[3.0, -3.0]]), np.array([[0.0, 1.0]])
    assert TF_IDF_WEIGHT / 2 < choose_weight(right, wrong, targets, exclusive=True) <= TF_IDF_WEIGHT
    assert TF_IDF_WEIGHT <= choose_weight(wrong, right, targets, exclusive=True) < 4 * TF_IDF_WEIGHT


# --- beside an encoder ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tuned(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, litebert.FinetuneResult]:
    """The same short run, with words and without."""
    folder = tmp_path_factory.mktemp("tuned")
    encoder, data = make_encoder(folder / "encoder", small_tokenizer), make_data("classification")
    return {
        flag: litebert.finetune(data, model=encoder, out=folder / str(flag), steps=2, tf_idf=flag, max_length=40)
        for flag in (True, False)
    }


def test_words_help_an_encoder_that_has_learnt_nothing(tuned: dict[bool, litebert.FinetuneResult]) -> None:
    assert tuned[True].metrics["accuracy"] > tuned[False].metrics["accuracy"] + 0.2
    card = (tuned[True].model / "README.md").read_text(encoding="utf-8")
    assert re.search(r"tf-idf of [\d,]+ words and pairs of words, which count [\d.]+ times", card)


def test_the_folder_answers_as_the_run_did(tuned: dict[bool, litebert.FinetuneResult]) -> None:
    dev = make_data("classification").splits["dev"]
    with_words, without = (litebert.load(tuned[flag].folder) for flag in (True, False))
    assert with_words.evaluate(dev).metrics["accuracy"] == pytest.approx(tuned[True].metrics["accuracy"])
    saved = with_words.members[0].saved
    assert saved is not None
    assert saved.tf_idf is not None
    scores = saved.tf_idf.score([example.text for example in dev if isinstance(example, TextExample)])
    added = [one + score for one, score in zip(without.run(dev)[0], scores, strict=True)]
    assert np.allclose(with_words.run(dev)[0], added, atol=1e-4)


def test_a_folder_without_its_words_is_refused(
    tuned: dict[bool, litebert.FinetuneResult], small_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in tuned[True].model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / TF_IDF_FILE).unlink()
    with pytest.raises(FolderError):
        litebert.load(folder)
    pairs = learn_tf_idf(TASKS["pairs"], make_data("pairs").splits["train"])
    (folder / TF_IDF_FILE).write_bytes(pairs.to_bytes())
    with pytest.raises(FolderError, match="another task"):
        read_saved_task(folder)


def test_a_smaller_copy_keeps_its_words(tuned: dict[bool, litebert.FinetuneResult], tmp_path: Path) -> None:
    dev = make_data("classification").splits["dev"]
    with pytest.warns(UserWarning, match="eight bits"):
        litebert.compress(tuned[True].model, method="quantize", out=tmp_path / "int8")
    assert {TASK_FILE, TF_IDF_FILE} <= {path.name for path in (tmp_path / "int8").iterdir()}
    accuracy = litebert.load(tmp_path / "int8").evaluate(dev).metrics["accuracy"]
    assert accuracy == pytest.approx(tuned[True].metrics["accuracy"], abs=0.1)


def test_an_onnx_file_says_what_it_lacks(tuned: dict[bool, litebert.FinetuneResult], tmp_path: Path) -> None:
    from litebert.inference.export import export

    assert export(tuned[True].model, tmp_path / "with").lacks_tf_idf
    assert not export(tuned[False].model, tmp_path / "without").lacks_tf_idf


def test_a_run_goes_on_with_its_words(small_tokenizer: Tokenizer, tmp_path: Path) -> None:
    encoder, data = make_encoder(tmp_path / "encoder", small_tokenizer), make_data("pairs")
    how: dict[str, Any] = {"model": encoder, "steps": 4, "tf_idf": True, "max_length": 40}
    whole = litebert.finetune(data, out=tmp_path / "whole", **how)
    again = litebert.finetune(data, out=tmp_path / "whole", resume=True, **how)
    assert again.metrics == whole.metrics


# --- beside a model that answers questions ----------------------------------------------------------------------------

NAMES, DEEDS = ("Anna", "Bert", "Clara", "David"), ("crossed the bridge", "painted a boat", "sold three apples")


def ask(number: int) -> QuestionExample:
    """A question about one of six sentences that are alike but for what they are about."""
    generator = np.random.default_rng(number)
    facts = [(name, deed) for name in NAMES for deed in DEEDS]
    chosen = [facts[index] for index in generator.permutation(len(facts))[:6]]
    years = [str(year) for year in generator.permutation(np.arange(1800, 2000))[:6]]
    context = " ".join(f"{name} {deed} in {year}." for (name, deed), year in zip(chosen, years, strict=True))
    (name, deed), year = chosen[3], years[3]
    answer = Answer(year, context.index(year))
    return QuestionExample(str(number), f"When was it that {name} {deed}?", context, (answer,))


@pytest.fixture(scope="module")
def answering(small_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> litebert.FinetuneResult:
    """A short run on questions, with words."""
    folder = tmp_path_factory.mktemp("answering")
    encoder = make_encoder(folder / "encoder", small_tokenizer)
    splits = {"train": [*map(ask, range(60))], "dev": [*map(ask, range(100, 124))]}
    data = Dataset(TASKS["questions"], splits)
    return litebert.finetune(data, model=encoder, out=folder / "run", steps=2, tf_idf=True, max_length=64)


def test_answers_are_looked_for_in_sentences_like_the_question(answering: litebert.FinetuneResult) -> None:
    pipeline = litebert.load(answering.folder)
    (member,) = pipeline.members
    assert member.saved is not None
    alone = replace(pipeline, members=(replace(member, saved=member.saved.model_copy(update={"tf_idf": None})),))
    questions = [*map(ask, range(200, 230))]

    def count(answers: Predictions) -> int:
        """Answers in the sentence of the right one."""
        found = 0
        for one, details in zip(questions, answers.details, strict=True):
            begin = details["nbest"][0]["begin"]
            right = one.answers[0].begin if one.answers else -1
            found += one.context[:begin].count(". ") == one.context[:right].count(". ")
        return found

    assert count(pipeline.answer_examples(questions)) > 20 > 12 > count(alone.answer_examples(questions))
    assert pipeline.evaluate([*map(ask, range(100, 124))]).metrics["f1"] == pytest.approx(answering.metrics["f1"])


def test_the_card_of_questions_says_that_words_are_counted(answering: litebert.FinetuneResult) -> None:
    assert "tf-idf of" in (answering.model / "README.md").read_text(encoding="utf-8")


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=8), st.floats(0, 5))
def test_words_move_answers_and_lose_none(scores: list[float], weight: float) -> None:
    context = "One two three. Four five six. Seven eight."
    words = list(find_words(context))[: len(scores)]
    total = math.fsum(map(math.exp, scores))
    before = Prediction(
        tuple(
            Candidate(word, begin, end, score, math.exp(score) / total)
            for (word, begin, end), score in sorted(zip(words, scores, strict=True), key=lambda item: -item[1])
        ),
        null_odds=1.5,
    )
    ratings = np.array([[0, 1.0], [15, 2.0], [30, 0.5]], np.float32)
    after = add_ratings(before, ratings, weight)
    assert {(one.text, one.begin) for one in after.candidates} == {(one.text, one.begin) for one in before.candidates}
    assert math.fsum(one.probability for one in after.candidates) == pytest.approx(1)
    assert [one.score for one in after.candidates] == sorted((one.score for one in after.candidates), reverse=True)
    assert after.null_odds == before.null_odds
    for one in after.candidates:
        rating = ratings[context[: one.begin].count(". "), 1]
        alone = next(other for other in before.candidates if other.begin == one.begin)
        assert one.score == pytest.approx(alone.score + weight * rating, abs=1e-5)
    assert add_ratings(before, ratings[:0], weight) is before
    assert add_ratings(Prediction((), 2.0), ratings, weight).candidates == ()


def test_the_weight_of_words_is_the_usual_one_where_questions_tell_nothing() -> None:
    one = ask(0)
    prediction = Prediction((Candidate("x", 0, 1, 0.0, 1.0),), 0.0)
    ratings = np.zeros((1, 2), np.float32)
    assert weigh_ratings([one], [prediction], [ratings]) == TF_IDF_WEIGHT
    assert weigh_ratings([replace(one, answers=())], [prediction], [ratings]) == TF_IDF_WEIGHT
    assert weigh_ratings([], [], []) == TF_IDF_WEIGHT


def test_the_weight_of_words_is_the_one_with_the_best_answers() -> None:
    one = replace(ask(0), context="No. Yes.", answers=(Answer("Yes", 4),))
    ratings = np.array([[0, 0.0], [4, 1.0]], np.float32)
    for ahead, least in ((1.0, 1.0), (3.0, 3.0), (0.1, TF_IDF_WEIGHT)):
        prediction = Prediction((Candidate("No", 0, 2, ahead, 0.5), Candidate("Yes", 4, 7, 0.0, 0.5)), 0.0)
        weight = weigh_ratings([one], [prediction], [ratings])
        assert add_ratings(prediction, ratings, weight).answer() == "Yes"
        assert least <= weight < 2 * least


def test_words_that_training_did_not_see_tell_where_to_look() -> None:
    words = learn_tf_idf(TASKS["questions"], [ask(0)])
    near, far = words.score([("Who is Zoe?", "Zoe is here."), ("Who is Zoe?", "Yves is here.")])
    assert near > far


def test_questions_without_words_can_be_kept(tmp_path: Path) -> None:
    words = keep(learn_tf_idf(TASKS["questions"], [QuestionExample("0", "?", "!", ())]), tmp_path)
    assert np.isfinite(words.score([("?", "!"), ("a text", "")])).all()
