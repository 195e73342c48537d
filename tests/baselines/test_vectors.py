"""Linear models on an encoder's vectors: they generalise as the vectors do, with the words beside them if asked."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from litebert.baselines.options import ChoiceItem
from litebert.baselines.vectors import EncoderVectors, make_frozen
from litebert.inference.load import load
from litebert.tasks.kinds.kind import AnswerType

MEANING = {"cat": 0, "kitten": 0, "dog": 1, "puppy": 1, "odd": 2}
LABELS: dict[str, Any] = {"label": ("feline", "canine"), "labels": (("feline",), ("canine",)), "number": (0.0, 1.0)}


class Embed:
    """A vector that says what a text is about, whichever word it uses; counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: list[str]) -> NDArray[Any]:
        self.asked += texts
        return np.array(
            [np.eye(3)[MEANING[text.split()[-1] if text else "odd"]] * 7 + 0.1 * (len(text) % 3) for text in texts]
        )


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("answer_type", LABELS)
def test_words_that_training_did_not_see_are_known_by_their_vectors(answer_type: AnswerType, words: bool) -> None:
    embed = Embed()
    rung = make_frozen(EncoderVectors(embed, 100), answer_type, words)
    seen = [f"{start} {word}" for start in ("my", "the", "one", "that") for word in ("cat", "dog")]
    rung.fit(seen, [*LABELS[answer_type]] * 4)
    found = rung.predict(["some kitten", "some puppy"])
    if answer_type == "number":
        assert found[0] < 0.4 < 0.6 < found[1]
    else:
        assert found == [*LABELS[answer_type]]
    assert rung.size_bytes > 100
    assert sorted(embed.asked) == sorted([*seen, "some kitten", "some puppy"])


@pytest.mark.parametrize("words", [False, True])
def test_pairs_are_alike_if_their_vectors_are(words: bool) -> None:
    rung = make_frozen(EncoderVectors(Embed(), 0), "label", words)
    names = ("cat", "dog", "odd")
    pairs = [(f"a {one}", f"the {other}") for one in names for other in names] * 6
    rung.fit(pairs, [first.split()[1] == second.split()[1] for first, second in pairs])
    assert rung.predict([("a kitten", "the cat"), ("a puppy", "the kitten")]) == [True, False]
    assert rung.predict([]) == []


def test_a_text_is_embedded_once_to_length_one() -> None:
    embed = Embed()
    vectors = EncoderVectors(embed, 0).fit([])
    first = vectors.average(["a cat", "a dog", "a cat"])
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(vectors.average(["a dog"])[0], first[1])
    assert embed.asked == ["a cat", "a dog"]
    assert vectors.saved_seconds > 0


@pytest.mark.parametrize("answer_type", ["label", "labels"])
def test_vectors_that_say_nothing_do_not_drown_the_words(answer_type: AnswerType) -> None:
    generator = np.random.default_rng(0)
    rung = make_frozen(EncoderVectors(lambda texts: generator.normal(size=(len(texts), 200)), 0), answer_type, True)
    numbers = np.random.default_rng(1).integers(0, 100, 600)
    others = [" ".join(f"other{row}-{place}" for place in range(12)) for row in range(600)]
    texts = [f"word{number} {other}" for number, other in zip(numbers, others, strict=True)]
    targets = [LABELS[answer_type][number % 2] for number in numbers]
    rung.fit(texts[:300], targets[:300])
    assert np.mean([one == other for one, other in zip(rung.predict(texts[300:]), targets[300:], strict=True)]) > 0.95


def test_rare_words_of_a_text_weigh_more_than_frequent_ones() -> None:
    words = load().members[0].words
    before = words.average(["the cat", "cat", "the"])
    after = words.fit(["the dog", "the house", "the sea", "a cat"]).average(["the cat", "cat", "the"])
    assert after[0] @ after[1] > before[0] @ before[1]
    assert after[0] @ after[2] < before[0] @ before[2]
    np.testing.assert_allclose(np.linalg.norm(after, axis=1), 1, rtol=1e-5)
    assert not words.average([""]).any()
    assert words.size_bytes > 0


def test_what_an_encoder_says_of_a_text_is_its_states_and_its_words() -> None:
    pipeline = load()
    vectors = EncoderVectors.of(pipeline).fit(["a cat", "the sea"])
    texts = ["a cat", "a kitten"]
    states, words = np.split(vectors.average(texts), [pipeline.config.hidden_size], axis=1)
    embedded = np.asarray(pipeline.embed(texts))
    np.testing.assert_allclose(states, embedded / np.linalg.norm(embedded, axis=1, keepdims=True) / 2**0.5, rtol=1e-4)
    table = pipeline.members[0].words.fit(["a cat", "the sea"])
    np.testing.assert_allclose(words, table.average(texts) / 2**0.5, rtol=1e-4)


@pytest.mark.parametrize("words", [False, True])
def test_options_are_known_by_their_vectors(words: bool) -> None:
    rung = make_frozen(EncoderVectors(Embed(), 0), "option", words)
    items: list[ChoiceItem] = [
        (f"there was a {one}", "", [f"my {other}" for other in MEANING]) for one in ("cat", "dog")
    ]
    rung.fit(items, [1, 3])  # the word itself is wrong
    assert rung.predict([("there was an odd", "", ["the dog", "that odd", "one cat"])]) == [1]
    assert rung.predict([]) == []
