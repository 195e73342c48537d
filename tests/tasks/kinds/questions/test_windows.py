"""Windows hold every token of a context, know its characters, and are labelled where the answer is."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from litebert.tasks.kinds.options import WindowConfig
from litebert.tasks.kinds.questions.windows import Window, make_windows
from litebert.tasks.task import Answer, QuestionExample
from litebert.text.tokenizer import Tokenizer
from tests.work import assert_linear

TEXTS = [
    "The café was   naïve;\n\tit cost € 5 – or £ 6.",
    "cafe\u0301s are nai\u0308ve, and so on cafe\u0301",  # accents as characters of their own
    "ﬁne ½ ℡ ™ Ｆｕｌｌ ㎏ 3㎢ №5",  # one character becomes several
    "저는 밥을 먹었습니다. 오늘 날씨가 좋아요!",
    "今天天气很好，我喜欢学习中文。",
    "a [SEP] b [CLS] [MASK]",
    "1,000, 2,000, and 3,000,",
    "  leading and trailing  ",
    "मैंने किताब पढ़ी 👩‍👩‍👧 ☎\ufe0f",
]
CHARACTERS = st.sampled_from([*"ab  é\u0301½ﬁ한국中文,1.\n\ufe0fİ"])
ANY_TEXT = st.one_of(st.text(CHARACTERS, max_size=60), st.sampled_from(TEXTS), st.text(max_size=40))


def ask(context: str, question: str = "who was it?", answer: tuple[int, int] | None = None) -> QuestionExample:
    """A question whose answer is this range of characters, or that has none."""
    answers = () if answer is None else (Answer(context[slice(*answer)], answer[0]),)
    return QuestionExample("q", question, context, answers)


def small(max_length: int = 16, stride: int = 4, max_query: int = 5) -> WindowConfig:
    return WindowConfig(max_length=max_length, stride=stride, max_query=max_query)


def make_window(num_tokens: int, begin: int = 3, best: list[bool] | None = None, example: int = 0) -> Window:
    """A window whose tokens are words of three letters with a space after each."""
    places = np.arange(num_tokens, dtype=np.int32) * 4
    shown = np.ones(num_tokens, bool) if best is None else np.array(best, bool)
    ids = np.zeros(begin + num_tokens + 1, np.int32)
    return Window(example, ids, begin, begin, places, places + 3, shown, None, None)


def point_at(windows: list[Window], high: float = 9.0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Logits that are high at the labels alone."""
    shape = len(windows), max(len(window.input_ids) for window in windows)
    start, end = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for row, window in enumerate(windows):
        start[row, window.start or 0] = end[row, window.end or 0] = high
    return start, end


def context_tokens(window: Window) -> list[tuple[int, int, int]]:
    """Id and characters of each token of a window's context."""
    ids = window.input_ids[window.context_begin : window.context_end]
    return list(zip(ids.tolist(), window.char_begins.tolist(), window.char_ends.tolist(), strict=True))


@settings(max_examples=150)
@given(ANY_TEXT, ANY_TEXT, st.integers(8, 24), st.integers(1, 30), st.integers(1, 4))
def test_windows_show_every_token_where_it_belongs(
    small_tokenizer: Tokenizer, context: str, question: str, max_length: int, stride: int, max_query: int
) -> None:
    config = small(max_length, stride, max_query)
    windows = make_windows([ask(context, question)], small_tokenizer, config)
    spans = small_tokenizer.spans(context, plain=True)
    asked = [span.id for span in small_tokenizer.spans(question, plain=True)][:max_query]
    room = max_length - len(asked) - 3
    seen = np.zeros(len(spans), int)
    shown_best = np.zeros(len(spans), int)
    for number, window in enumerate(windows):
        ids = window.input_ids.tolist()
        assert ids[: window.split] == [small_tokenizer.cls_id, *asked, small_tokenizer.sep_id]
        assert window.context_begin == window.split
        assert ids[window.context_end :] == [small_tokenizer.sep_id]
        assert len(ids) <= max_length
        begin = number * min(stride, room)
        expected = spans[begin : begin + room]
        tokens = context_tokens(window)
        assert [(token, first) for token, first, _ in tokens] == [(span.id, span.begin) for span in expected]
        assert all(end >= span.end for (_, _, end), span in zip(tokens, expected, strict=True))
        seen[begin : begin + room] += 1
        shown_best[begin : begin + room] += window.is_max_context
        if number:  # none is there without need
            assert begin - min(stride, room) + room < len(spans)
    assert (seen > 0).all()
    assert (shown_best == 1).all()


@settings(max_examples=100)
@given(st.integers(0, 70), st.integers(8, 24), st.integers(1, 30))
@example(num_tokens=400, max_length=384, stride=300)  # a hundred tokens of length outweigh one of context
def test_a_token_counts_where_most_is_seen_around_it(
    small_tokenizer: Tokenizer, num_tokens: int, max_length: int, stride: int
) -> None:
    config = small(max_length, stride, max_query=1)
    windows = make_windows([ask("1 " * num_tokens, "")], small_tokenizer, config)
    step = min(stride, max_length - 3)
    ranges = [(i * step, i * step + len(window.char_begins)) for i, window in enumerate(windows)]
    total = ranges[-1][1]
    for token in range(total):
        best, best_score = -1, -1.0
        for number, (begin, end) in enumerate(ranges):
            if begin <= token < end:
                score = min(token - begin, end - 1 - token) + 0.01 * (end - begin)
                if score > best_score:
                    best, best_score = number, score
        found = [
            number
            for number, (begin, end) in enumerate(ranges)
            if begin <= token < end and windows[number].is_max_context[token - begin]
        ]
        assert found == [best]


@settings(max_examples=150)
@given(ANY_TEXT, st.data(), st.integers(12, 40), st.integers(1, 30))
def test_the_label_is_the_smallest_range_that_covers_the_answer(
    small_tokenizer: Tokenizer, context: str, data: st.DataObject, max_length: int, stride: int
) -> None:
    begin = data.draw(st.integers(0, len(context)))
    end = data.draw(st.integers(begin, len(context)))
    windows = make_windows([ask(context, answer=(begin, end))], small_tokenizer, small(max_length, stride))
    all_tokens = {token for window in windows for token in context_tokens(window)}
    touched = {token for token in all_tokens if token[1] < end and token[2] > begin and token[1] < token[2]}
    for window in windows:
        tokens = context_tokens(window)
        if not touched:
            assert (window.start, window.end) == (None, None)
        elif window.start == 0:
            assert window.end == 0
            assert not touched <= set(tokens)
        else:
            assert window.start is not None
            assert window.end is not None
            label = tokens[window.start - window.context_begin : window.end - window.context_begin + 1]
            assert {label[0], label[-1]} <= touched <= set(label)
            covered = context[label[0][1] : label[-1][2]]
            for character in context[begin:end]:  # what no token holds may be lost at the edges alone
                assert character in covered or not small_tokenizer.spans(character, plain=True)
    if touched and len(all_tokens) <= max_length - 8:
        assert windows[0].start


@pytest.mark.parametrize(
    ("context", "answer"),
    [
        ("In 1984, the captain crossed the river.", "captain"),
        ("The  city   of light.", "city   of"),
        ("We met at a café in town", "café"),
        ("We met at a cafe\u0301 in town", "cafe\u0301"),
        ("저는 밥을 먹었습니다.", "밥을"),
        ("오늘 날씨가 좋아요!", "날씨가"),
        ("It is ½ of it", "½"),
        ("a ﬁne day", "ﬁne"),
        ("The “captain” (Anna) left", "Anna"),
    ],
)
def test_labels_are_exact_where_tokens_allow(small_tokenizer: Tokenizer, context: str, answer: str) -> None:
    begin = context.index(answer)
    (window,) = make_windows([ask(context, answer=(begin, begin + len(answer)))], small_tokenizer, WindowConfig())
    assert window.start
    assert window.end
    chars = window.char_begins[window.start - window.context_begin], window.char_ends[window.end - window.context_begin]
    assert context[slice(*chars)] == answer


def test_an_answer_inside_a_word_takes_all_of_its_tokens(small_tokenizer: Tokenizer) -> None:
    context = "the captain remembered the bridge"
    whole = {span.piece for span in small_tokenizer.spans(context)}
    assert "▁captain" in whole
    begin = context.index("aptai")
    (window,) = make_windows([ask(context, answer=(begin, begin + 5))], small_tokenizer, WindowConfig())
    assert window.start == window.end
    assert window.start is not None
    assert window.input_ids[window.start] == small_tokenizer.id_of("▁captain")


def test_labels_when_there_is_none_and_when_it_is_unknown(small_tokenizer: Tokenizer) -> None:
    context = "nobody painted the boat, and two sailors measured the bridge. " * 3
    first = Answer("boat", context.index("boat"))
    second = Answer("sailors", context.index("sailors"))
    examples = [
        QuestionExample("none", "who?", context, ()),
        QuestionExample("unknown", "who?", context, None),
        QuestionExample("two", "who?", context, (second, first)),
        QuestionExample("a space", "who?", context, (Answer(" ", 6),)),
    ]
    windows = make_windows(examples, small_tokenizer, small(24, 6))
    labels = [{(w.start, w.end) for w in windows if w.example == number} for number in range(4)]
    assert labels[0] == {(0, 0)}
    assert labels[1] == labels[3] == {(None, None)}
    told = [window for window in windows if window.example == 2]
    holding = [window for window in told if window.start]
    assert 0 < len(holding) < len(told)  # the others are kept, for [CLS]
    for window in holding:
        assert window.start is not None
        assert window.char_begins[window.start - window.context_begin] == second.begin


def test_empty_contexts_and_questions(small_tokenizer: Tokenizer) -> None:
    assert make_windows([], small_tokenizer, WindowConfig()) == []
    examples = [ask("", "who?"), ask("   ", ""), ask("a boat", "")]
    nothing, blank, boat = make_windows(examples, small_tokenizer, WindowConfig())
    begin, end = small_tokenizer.cls_id, small_tokenizer.sep_id
    assert blank.input_ids.tolist() == [begin, end, end]
    assert nothing.input_ids[-2:].tolist() == [end, end]
    assert (nothing.start, nothing.end) == (0, 0)
    assert nothing.context_begin == nothing.context_end == len(nothing.input_ids) - 1
    assert boat.split == 2
    assert len(boat.char_begins) > 0


def test_a_context_is_read_once(small_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    spans = small_tokenizer.spans
    monkeypatch.setattr(small_tokenizer, "spans", lambda text, plain: read.append(text) or spans(text, plain))
    contexts = ["the old captain", "the naïve king"]
    make_windows([ask(contexts[i % 2], f"who {i}?") for i in range(20)], small_tokenizer, WindowConfig())
    assert read == contexts


def test_nothing_in_a_text_is_special(small_tokenizer: Tokenizer) -> None:
    (window,) = make_windows([ask("a [SEP] b [MASK]", "[CLS] [SEP]?")], small_tokenizer, WindowConfig())
    special = [small_tokenizer.cls_id, small_tokenizer.sep_id, small_tokenizer.mask_id]
    assert [int(np.sum(window.input_ids == token)) for token in special] == [1, 2, 0]


def test_wordpieces_have_characters_too(tmp_path: Path) -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cafe", "##s", "中", "文", "in"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    tokenizer = Tokenizer.from_pretrained(tmp_path / "vocab.txt")
    context = "Cafés  in 中文"
    (window,) = make_windows([ask(context, "in?", (7, 11))], tokenizer, WindowConfig())
    words = [context[begin:end] for _, begin, end in context_tokens(window)]
    assert words == ["Café", "s", "in", "中", "文"]
    assert (window.start, window.end) == (window.context_begin + 2, window.context_begin + 3)


def test_a_long_document_takes_linear_time(small_tokenizer: Tokenizer) -> None:
    sentence = "two sailors carried away the bridge, and 1999 was good. "
    config = WindowConfig(max_length=64, stride=16, max_query=8)

    def work(repeats: int) -> Callable[[], object]:
        context = sentence * repeats
        question = ask(context, answer=(len(context) - 6, len(context) - 2))

        def cut() -> None:
            windows = make_windows([question], small_tokenizer, config)
            assert windows[-1].start
            assert windows[-1].char_ends[-1] == len(context) - 1

        return cut

    assert_linear(work, 200, factor=10)


@pytest.mark.parametrize("wrong", [{"max_length": 67}, {"stride": 0}, {"max_query": 400}, {"nbest": 0}, {"rows": 1}])
def test_a_config_that_cannot_work_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        WindowConfig(**wrong)
    assert WindowConfig(max_length=68).max_query == 64
