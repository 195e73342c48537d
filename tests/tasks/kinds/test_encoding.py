"""Examples become features as their kind asks: cut, carried on, windowed; every label in its place."""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from litebert.batch import NO_LABEL
from litebert.tasks.features import Features
from litebert.tasks.kinds import kind_of
from litebert.tasks.kinds.choice import join_option
from litebert.tasks.kinds.options import EncodeOptions, WindowConfig
from litebert.tasks.kinds.questions.windows import make_windows
from litebert.tasks.task import Answer, ChoiceExample, Example, QuestionExample, TaggedExample, Task, TextExample
from litebert.text.tokenizer import Tokenizer
from tests.conftest import make_sentences
from tests.tasks.small import TASKS

SENTENCES = [*make_sentences(60), "", "한국어", "x" * 90, "☃ unknown ☃", " spaces  "]
SINGLE = Task(name="t", kind="classification", labels=("no", "yes"), metrics=("accuracy",))
PAIR = SINGLE.model_copy(update={"is_pair": True})


def encode(
    task: Task,
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    max_length: int,
    windows: WindowConfig | None = None,
) -> Features:
    return kind_of(task).encode(task, examples, tokenizer, EncodeOptions(max_length, windows))


def row(features: Features, number: int) -> list[int]:
    begin = int(features.ends[number] - features.row_lengths[number])
    tokens: list[int] = features.tokens[begin : features.ends[number]].tolist()
    return tokens


def assert_like_tokenizer(features: Features, tokenizer: Tokenizer, texts: list[str], pairs: list[str] | None) -> None:
    wanted = tokenizer.encode(texts, pairs, max_length=20)
    batch = features.collate(range(len(texts)), tokenizer.pad_id)
    assert batch.input_ids.tolist() == wanted.input_ids.tolist()
    assert batch.attention_mask is not None
    assert batch.attention_mask.tolist() == wanted.attention_mask.tolist()
    assert batch.token_type_ids is not None
    assert batch.token_type_ids.tolist() == wanted.token_type_ids.tolist()


def test_texts_are_encoded_as_the_tokenizer_does(small_tokenizer: Tokenizer) -> None:
    examples = [TextExample(str(number), text) for number, text in enumerate(SENTENCES)]
    features = encode(SINGLE, examples, small_tokenizer, 20)
    assert_like_tokenizer(features, small_tokenizer, SENTENCES, None)
    assert features.labels is None
    assert features.row_lengths.max() == 20


def test_pairs_are_cut_as_the_tokenizer_does(small_tokenizer: Tokenizer) -> None:
    seconds = random.Random(0).sample(SENTENCES, len(SENTENCES))
    examples = [TextExample(str(i), *texts) for i, texts in enumerate(zip(SENTENCES, seconds, strict=True))]
    features = encode(PAIR, examples, small_tokenizer, 20)
    assert_like_tokenizer(features, small_tokenizer, SENTENCES, seconds)


def test_nothing_in_a_text_is_special(small_tokenizer: Tokenizer) -> None:
    """A text that speaks of [SEP] does not end a segment with it."""
    features = encode(SINGLE, [TextExample("0", "the [SEP] river [MASK] [CLS]")], small_tokenizer, 40)
    tokens = row(features, 0)
    assert tokens[0] == small_tokenizer.cls_id
    assert tokens[-1] == small_tokenizer.sep_id
    assert not {small_tokenizer.cls_id, small_tokenizer.sep_id, small_tokenizer.mask_id} & {*tokens[1:-1]}


def test_labels_become_numbers_in_the_order_of_the_task(small_tokenizer: Tokenizer) -> None:
    def labels(task: Task, *given: str | float | tuple[str, ...] | None) -> list[object] | None:
        examples = [TextExample(str(number), "text", label=label) for number, label in enumerate(given)]
        found = encode(task, examples, small_tokenizer, 20).labels
        return None if found is None else found.tolist()

    assert labels(SINGLE, "yes", "no", "yes") == [1, 0, 1]
    assert labels(SINGLE, "yes", None) is None
    assert labels(TASKS["multi-label"], ("year", "apples"), (), ("bridge",)) == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert labels(TASKS["regression"], 0.5, -3.0) == [0.5, -3.0]


# --- tags -------------------------------------------------------------------------------------------------------------

TAGGING = Task(name="t", kind="tagging", labels=("A", "B", "O"), metrics=("accuracy",))
WORDS = st.sampled_from(
    ["the", "river", "Anna", "한국어를", "naïve", "x", "☃", "\u200b", "translatedtranslated", "y" * 30]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(st.lists(st.lists(st.tuples(WORDS, st.sampled_from("ABO")), max_size=25), min_size=1, max_size=4))
def test_every_word_has_one_place(small_tokenizer: Tokenizer, sentences: list[list[tuple[str, str]]]) -> None:
    examples = [
        TaggedExample(str(number), tuple(word for word, _ in pairs), tuple(tag for _, tag in pairs))
        for number, pairs in enumerate(sentences)
    ]
    features = encode(TAGGING, examples, small_tokenizer, 12)
    assert features.tags is not None
    assert features.row_lengths.max() <= 12
    assert len(features.parts) == features.num_items
    assert features.examples.tolist() == sorted(features.examples.tolist())
    found: list[list[tuple[list[int], str]]] = [[] for _ in examples]
    for number, starts in enumerate(features.parts):
        tokens, end = row(features, number), int(features.ends[number])
        tags = features.tags[end - len(tokens) : end]
        assert np.flatnonzero(tags != NO_LABEL).tolist() == starts
        assert (tokens[0], tokens[-1]) == (small_tokenizer.cls_id, small_tokenizer.sep_id)
        for begin, after in pairwise([*starts, len(tokens) - 1]):
            found[features.examples[number]].append((tokens[begin:after], TAGGING.labels[tags[begin]]))
    for example, pieces in zip(examples, found, strict=True):
        assert example.tags is not None
        assert [tag for _, tag in pieces] == list(example.tags)
        for word, (piece, _) in zip(example.words, pieces, strict=True):
            whole = small_tokenizer.encode_plain([word])[0].tolist()
            assert piece == (whole[:10] or [small_tokenizer.unknown_id])


def test_a_long_sentence_goes_on_between_words(small_tokenizer: Tokenizer) -> None:
    words = ("the", "river", "crossed", "the", "bridge") * 8
    features = encode(TAGGING, [TaggedExample("0", words, None)], small_tokenizer, 12)
    assert features.num_items > 3
    assert sum(map(len, features.parts)) == 40
    assert features.tags is None
    assert (features.row_lengths[:-1] > 8).all()  # no row is cut short without need


# --- options ----------------------------------------------------------------------------------------------------------


def test_a_blank_is_where_the_option_belongs() -> None:
    assert join_option("Anna bought _ there, _ said.", "pears") == "Anna bought pears there, _ said."
    assert join_option("Who?", "Anna") == "Who? Anna"


def test_the_end_of_a_question_stays(small_tokenizer: Tokenizer) -> None:
    passage, question = "the river crossed the bridge " * 80, "every student measured good advice " * 40 + "_ ."
    example = ChoiceExample("0", passage, question, ("Anna", "nobody", "the king"), answer=2)
    short = ChoiceExample("1", "the river", "who _", ("Anna", "two sailors"), answer=0)
    features = encode(TASKS["choice"], [example, short], small_tokenizer, 300)
    assert features.num_rows is not None
    assert features.labels is not None
    assert (features.num_rows.tolist(), features.labels.tolist(), features.num_items) == ([3, 2], [2, 0], 2)
    first = small_tokenizer.encode_plain([passage])[0].tolist()
    for number, option in enumerate(example.options):
        second = small_tokenizer.encode_plain([question.replace("_", option)])[0].tolist()
        assert len(second) > 128
        wanted = [small_tokenizer.cls_id, *first[: 300 - 3 - 128], small_tokenizer.sep_id]
        assert features.splits[number] == len(wanted)
        assert row(features, number) == [*wanted, *second[-128:], small_tokenizer.sep_id]
    plain = small_tokenizer.encode(["the river"] * 2, ["who Anna", "who two sailors"])
    assert [row(features, number) for number in (3, 4)] == [
        ids[mask == 1].tolist() for ids, mask in zip(plain.input_ids, plain.attention_mask, strict=True)
    ]


def test_a_question_leaves_room_for_the_passage(small_tokenizer: Tokenizer) -> None:
    """Where rows are short, the question has half of them at most."""
    example = ChoiceExample("0", "the river " * 40, "every student " * 40, ("Anna", "nobody"), answer=None)
    features = encode(TASKS["choice"], [example], small_tokenizer, 21)
    assert features.row_lengths.tolist() == [21, 21]
    assert features.splits.tolist() == [11, 11]  # [CLS], nine of the passage, [SEP]
    assert features.labels is None


# --- questions --------------------------------------------------------------------------------------------------------


@pytest.fixture
def questions() -> list[QuestionExample]:
    long = " ".join(SENTENCES[:6])
    begin = long.index("bridge")
    return [
        QuestionExample("0", "What was crossed?", long, (Answer("bridge", begin),)),
        QuestionExample("1", "Who was it?", "It was Anna.", (Answer("Anna", 7),)),
        QuestionExample("2", "Why?", "It was Anna.", ()),
    ]


def test_rows_of_questions_are_their_windows(small_tokenizer: Tokenizer, questions: list[QuestionExample]) -> None:
    config = WindowConfig(max_length=24, stride=5, max_query=8)
    features = encode(TASKS["unanswerable questions"], questions, small_tokenizer, 512, config)
    windows = make_windows(questions, small_tokenizer, config)
    assert features.num_items == len(windows) > 5
    assert features.examples.tolist() == [window.example for window in windows]
    assert features.spans is not None
    assert features.allowed is not None
    for number, window in enumerate(windows):
        assert row(features, number) == window.input_ids.tolist()
        assert features.splits[number] == window.split
        assert features.spans[number].tolist() == [window.start, window.end]
        begin = features.ends[number] - len(window.input_ids)
        allowed = features.allowed[begin : features.ends[number]]
        assert allowed[0]  # [CLS] is the place of no answer
        assert np.array_equal(allowed[1:], window.answer_mask[1:])
        assert allowed[window.start]
        assert allowed[window.end]
    assert [0, 0] in features.spans.tolist()
    assert features.spans[-2].tolist() != [0, 0] == features.spans[-1].tolist()


def test_questions_without_answers_have_no_spans(small_tokenizer: Tokenizer, questions: list[QuestionExample]) -> None:
    asked = [QuestionExample(example.id, example.question, example.context) for example in questions]
    assert (
        encode(TASKS["questions"], asked, small_tokenizer, 64, WindowConfig(max_length=64, max_query=8)).spans is None
    )


@pytest.mark.parametrize("name", TASKS)
def test_nothing_gives_no_rows(name: str, small_tokenizer: Tokenizer) -> None:
    features = encode(TASKS[name], [], small_tokenizer, 512)
    assert features.num_items == len(features.lengths()) == 0
