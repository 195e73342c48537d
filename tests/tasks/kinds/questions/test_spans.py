"""Decoding finds the best spans and no others, gives characters of the original text, and knows when not to answer."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from litebert.errors import RequestError
from litebert.model.model import Model
from litebert.tasks.kinds.options import WindowConfig
from litebert.tasks.kinds.questions.spans import (
    NO_SPAN,
    Candidate,
    Prediction,
    WindowScores,
    average_predictions,
    combine,
    combine_all,
    decode_beam,
    decode_plain,
)
from litebert.tasks.kinds.questions.windows import Window, make_windows
from litebert.tasks.task import Answer, QuestionExample
from litebert.text.tokenizer import Tokenizer
from tests.conftest import small_config
from tests.tasks.kinds.questions.test_windows import ANY_TEXT, TEXTS, ask, make_window, point_at, small
from tests.work import count_calls


def kept(window: WindowScores) -> list[tuple[float, int, int]]:
    return list(zip(window.scores.tolist(), window.begins.tolist(), window.ends.tolist(), strict=True))


def make_scores(*spans: tuple[float, int, int], null: float = 0.0, competes: bool = True) -> WindowScores:
    table = np.array(spans, np.float64).reshape(-1, 3)
    begins, ends = table[:, 1].astype(np.int32), table[:, 2].astype(np.int32)
    return WindowScores(table[:, 0].astype(np.float32), begins, ends, null, competes)


def search_all(
    window: Window, start: NDArray[np.float32], end: NDArray[np.float32], config: WindowConfig
) -> list[tuple[float, int, int]]:
    """Every span that is allowed, the best first, of equal ones the earlier, then the shorter."""
    found = []
    for i in range(len(window.char_begins)):
        for j in range(i, min(i + config.max_answer, len(window.char_begins))):
            first, last = window.char_begins[i], window.char_ends[j]
            has_edges = first < window.char_ends[i] and window.char_begins[j] < last
            if window.is_max_context[i] and has_edges:
                score = start[window.context_begin + i] + end[window.context_begin + j]
                found.append((-float(score), i, j, int(first), int(last)))
    return [(-score, first, last) for score, _, _, first, last in sorted(found)[: config.nbest]]


@settings(max_examples=150)
@given(st.lists(ANY_TEXT, min_size=1, max_size=3), st.integers(1, 12), st.integers(1, 30), st.integers(0, 999))
def test_plain_decoding_finds_what_a_search_of_all_spans_finds(
    small_tokenizer: Tokenizer, contexts: list[str], max_answer: int, nbest: int, seed: int
) -> None:
    config = WindowConfig(max_length=24, stride=5, max_query=6, max_answer=max_answer, nbest=nbest)
    windows = make_windows([ask(context) for context in contexts], small_tokenizer, config)
    shape = len(windows), max(len(window.input_ids) for window in windows) + seed % 3
    generator = np.random.default_rng(seed)
    # Few different values, so that there are equal spans.
    start, end = generator.integers(-4, 5, (2, *shape)).astype(np.float32)
    decoded = decode_plain(windows, start, end, config)
    for row, window in enumerate(windows):
        expected = search_all(window, start[row], end[row], config)
        assert kept(decoded[row]) == expected
        assert decoded[row].null == start[row, 0] + end[row, 0]
    predictions = combine_all([ask(context) for context in contexts], windows, decoded, config)
    for context, prediction in zip(contexts, predictions, strict=True):
        for candidate in prediction.candidates:
            assert candidate.text == context[candidate.begin : candidate.end]
            assert candidate.text == candidate.text.strip() != ""
        if prediction.candidates:
            assert math.fsum(candidate.probability for candidate in prediction.candidates) == pytest.approx(1)
        assert prediction.answer() == (prediction.candidates[0].text if prediction.candidates else "")


def test_plain_decoding_by_hand() -> None:
    config = WindowConfig(max_answer=2, nbest=3)
    windows = [make_window(4), make_window(2, begin=2, best=[False, True])]
    start = np.array([[1, 9, 9, 0, 5, 0, 2, 9], [-1, 9, 7, 0, 9, 0, 0, 0]], np.float32)
    end = np.array([[2, 9, 9, 8, 0, 4, 7, 9], [-2, 9, 7, 6, 9, 0, 0, 0]], np.float32)
    first, second = decode_plain(windows, start, end, config)
    # Tokens of the context are 3…6. The end at 3 lies before the start at 4; the one at 6 is too far from it.
    assert kept(first) == [(9, 4, 11), (9, 12, 15), (8, 0, 3)]
    assert first.null == 3
    assert kept(second) == [(6, 4, 7)]  # only the second token is shown best here
    assert second.null == -3


def test_large_batches_decode_alike() -> None:
    config = WindowConfig()
    windows = [make_window(20 + number % 7) for number in range(1100)]
    start, end = np.random.default_rng(0).normal(size=(2, 1100, 40)).astype(np.float32)
    decoded = decode_plain(windows, start, end, config)
    for row in (0, 511, 512, 1099):
        one = decode_plain(windows[row : row + 1], start[row : row + 1], end[row : row + 1], config)[0]
        assert kept(decoded[row]) == kept(one)
    assert decode_plain([], start[:0], end[:0], config) == []


def test_scores_that_are_no_numbers_give_no_answer() -> None:
    config = WindowConfig()
    nan = np.full((1, 12), np.nan, np.float32)
    (lost,) = decode_plain([make_window(8)], nan, nan, config)
    ones = np.ones((1, 12), np.float32)
    (fine,) = decode_plain([make_window(8)], ones, ones, config)
    assert kept(lost) == []
    context = "abc " * 8
    assert combine(context, [lost]) == Prediction((), NO_SPAN)
    assert combine(context, [lost, fine]) == combine(context, [fine])
    for wrong in (np.nan, np.inf):
        logits = np.ones((1, 8), np.float32)
        logits[0, 5] = wrong  # the third of four words
        (rest,) = decode_plain([make_window(4)], logits, logits, config)
        spans = [(0, 3), (0, 7), (0, 15), (4, 7), (4, 15), (12, 15)]
        assert kept(rest) == [(2.0, *span) for span in spans]


def make_beam(start: Any, starts: Any, end: Any, ends: Any, answerable: float = 0.0) -> dict[str, Any]:
    log_probs = {"start_log_probs": np.array(start, np.float32), "end_log_probs": np.array(end, np.float32)}
    odds = {"answerable_logits": np.array([answerable], np.float32)}
    return {**log_probs, "starts": np.array(starts), "ends": np.array(ends), **odds}


def test_beam_decoding_by_hand() -> None:
    window = make_window(4, best=[True, True, True, False])
    masked = np.finfo(np.float32).min
    beam = make_beam(
        [[-0.5, -1.0, -2.0, masked]],
        [[4, 6, 3, 0]],  # 6 is shown better elsewhere, 0 is [CLS]
        [[[-0.25, -1.0, -3.0], [-0.1, -1.0, -2.0], [-0.5, -1.5, masked], [-0.5, masked, masked]]],
        [[[5, 3, 4], [6, 5, 4], [5, 3, 6], [5, 0, 1]]],  # 3 before 4; 3…5 is three tokens long
        answerable=1.5,
    )
    (found,) = decode_beam([window], beam, WindowConfig(max_answer=2))
    assert kept(found) == [(-0.75, 4, 11), (-3.5, 4, 7), (-3.5, 0, 3)]
    (longer,) = decode_beam([window], beam, WindowConfig(max_answer=3))
    assert kept(longer) == [(-0.75, 4, 11), (-2.5, 0, 11), (-3.5, 4, 7), (-3.5, 0, 3)]
    (shorter,) = decode_beam([window], beam, WindowConfig(max_answer=3, nbest=1))
    assert kept(shorter) == [(-0.75, 4, 11)]
    (longest,) = decode_beam([window], beam, WindowConfig(max_answer=4))
    assert kept(longest) == kept(longer)  # 3…6 is short enough now, but its end is masked
    assert found.null == -1.5
    context = "abc def ghi jkl "
    prediction = combine(context, [found, make_scores((-9, 0, 3), null=0.5, competes=False)])
    assert prediction.candidates[0].text == "def ghi"
    assert prediction.null_odds == -1.5  # the lowest, whatever the spans score
    assert combine(context, [make_scores((-9, 0, 3), null=0.5, competes=False)]).null_odds == 0.5


def test_a_beam_may_begin_and_end_at_marks_of_a_space() -> None:
    # ▁ abc ▁ def ▁: the marks stand for no characters, where the next word begins.
    begins, ends = np.array([[0, 0, 5, 5, 9], [0, 3, 5, 8, 9]], np.int32)
    window = Window(0, np.zeros(8, np.int32), 2, 2, begins, ends, np.ones(5, bool), None, None)
    assert window.answer_mask.tolist() == [False, False, False, True, False, True, False, False]
    beam = make_beam([[-1.0, -2.0]], [[2, 4]], [[[-1.0, -2.0, -3.0], [-1.0, -2.0, -3.0]]], [[[4, 2, 6], [6, 5, 4]]])
    (found,) = decode_beam([window], beam, WindowConfig())
    assert kept(found) == [(-2.0, 0, 3), (-3.0, 5, 8), (-4.0, 0, 8), (-4.0, 5, 8)]
    assert [candidate.text for candidate in combine("abc  def ", [found]).candidates] == ["abc", "def", "abc  def"]
    start = end = np.array([[0, 0, 9, 1, 9, 1, 9, 0]], np.float32)
    (plain,) = decode_plain([window], start, end, WindowConfig())
    assert kept(plain) == [(2.0, 0, 3), (2.0, 0, 8), (2.0, 5, 8)]


def test_a_beam_that_goes_backwards_inside_one_character_is_dropped() -> None:
    places = np.zeros(3, np.int32)  # three tokens of one character, as of ½
    window = Window(0, np.zeros(6, np.int32), 2, 2, places, places + 1, np.ones(3, bool), None, None)
    beam = make_beam([[-1.0]], [[3]], [[[-1.0, -2.0]]], [[[2, 4]]])
    (found,) = decode_beam([window], beam, WindowConfig())
    assert kept(found) == [(-3.0, 0, 1)]


def test_a_beam_without_a_span_keeps_its_odds() -> None:
    backwards = make_beam([[-1.0]], [[6]], [[[-1.0]]], [[[4]]], answerable=2.0)
    (found,) = decode_beam([make_window(4)], backwards, WindowConfig())
    prediction = combine("abc def ghi jkl ", [found])
    assert prediction == Prediction((), -2.0)
    other = Prediction((Candidate("abc", 0, 3, 0.0, 1.0),), -4.0)
    assert average_predictions([prediction, other]).null_odds == -3.0
    broken = Prediction((), NO_SPAN)
    assert average_predictions([broken, other]).answer(threshold=0.0) == "abc"
    assert average_predictions([broken, broken]) == broken


@pytest.mark.parametrize("context", ["a", "", *TEXTS])
def test_what_models_say_can_be_decoded(small_tokenizer: Tokenizer, context: str) -> None:
    config = small(24, 6)
    windows = make_windows([ask(context)], small_tokenizer, config)
    width = max(len(window.input_ids) for window in windows)
    ids, mask, may_answer = np.zeros((3, len(windows), width), np.int64)
    for row, window in enumerate(windows):
        ids[row, : len(window.input_ids)] = window.input_ids
        mask[row, : len(window.input_ids)] = 1
        may_answer[row, : len(window.input_ids)] = window.answer_mask
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    shape = small_config(vocab_size=small_tokenizer.vocab_size)
    torch.manual_seed(0)
    with torch.no_grad():
        plain = Model(shape, "question-answering").eval()(**inputs).arrays()
        beam = (
            Model(shape, "answerable-question-answering")
            .eval()(**inputs, answer_mask=torch.tensor(may_answer))
            .arrays()
        )
    decoded = [
        decode_plain(windows, plain["start_logits"], plain["end_logits"], config),
        decode_beam(windows, beam, config),
    ]
    predictions = [combine_all([ask(context)], windows, scores, config)[0] for scores in decoded]
    for prediction in predictions:
        assert bool(prediction.candidates) == bool(context)
        assert prediction.answer() in context
        assert all(math.isfinite(candidate.score) for candidate in prediction.candidates)
    assert (predictions[0].null_odds < NO_SPAN) == bool(context)
    assert predictions[1].null_odds == pytest.approx(-float(beam["answerable_logits"].max()))


@settings(max_examples=100)
@given(ANY_TEXT, st.data(), st.integers(12, 40), st.integers(1, 30))
def test_a_model_that_points_at_the_label_gives_the_answer(
    small_tokenizer: Tokenizer, context: str, data: st.DataObject, max_length: int, stride: int
) -> None:
    begin = data.draw(st.integers(0, len(context)))
    end = data.draw(st.integers(begin, len(context)))
    example = ask(context, answer=(begin, end))
    config = WindowConfig(max_length=max_length, stride=stride, max_query=5, max_answer=1000)
    windows = make_windows([example], small_tokenizer, config)
    starts = [window.start - window.context_begin for window in windows if window.start]
    shown = [window for window in windows if window.start]
    if not any(window.is_max_context[start] for window, start in zip(shown, starts, strict=True)):
        return  # no window holds all of the answer where its beginning is best seen
    (prediction,) = combine_all([example], windows, decode_plain(windows, *point_at(windows), config), config)
    best = prediction.candidates[0]
    assert prediction.answer() == context[best.begin : best.end]
    assert best.score == 18
    for place in range(begin, end):
        assert best.begin <= place < best.end or not small_tokenizer.spans(context[place], plain=True)


@pytest.mark.parametrize("answer", ["café", "6 €", "밥을", "ﬁne  ½", "cafe\u0301"])
def test_answers_come_back_as_they_were_written(small_tokenizer: Tokenizer, answer: str) -> None:
    context = f"Nobody   remembered\n{answer} , and the naïve king gave back 1999 ｂｏａｔｓ."
    example = QuestionExample("q", "what?", context, (Answer(answer, context.index(answer)),))
    windows = make_windows([example], small_tokenizer, WindowConfig())
    decoded = decode_plain(windows, *point_at(windows), WindowConfig())
    (prediction,) = combine_all([example], windows, decoded, WindowConfig())
    assert prediction.answer() == answer


def test_windows_of_a_question_are_put_together() -> None:
    context = "abc def ghi"
    one = make_scores((2.0, 0, 3), (1.0, 4, 7), null=4.0)
    two = make_scores((3.0, 4, 7), (0.0, 4, 11), null=1.5)
    prediction = combine(context, [one, two])
    assert [(c.text, c.score) for c in prediction.candidates] == [("def", 3.0), ("abc", 2.0), ("def ghi", 0.0)]
    weights = np.exp([3.0, 2.0, 0.0])
    assert [c.probability for c in prediction.candidates] == pytest.approx(weights / weights.sum())
    assert prediction.null_odds == 1.5 - 3.0
    assert [c.text for c in combine(context, [one, two], nbest=2).candidates] == ["def", "abc"]
    assert sum(c.probability for c in combine(context, [one, two], nbest=2).candidates) == pytest.approx(1)


def test_each_window_goes_to_its_example() -> None:
    examples = [ask("abc def "), ask(""), ask("uvw xyz ")]
    windows = [make_window(2, example=2), make_window(2, example=0), make_window(2, example=2)]
    scores = [make_scores((1.0, 0, 3)), make_scores((5.0, 4, 7)), make_scores((2.0, 4, 7))]
    predictions = combine_all(examples, windows, scores, WindowConfig())
    assert [prediction.answer() for prediction in predictions] == ["def", "", "xyz"]
    assert len(predictions[2].candidates) == 2


def test_no_answer_is_given_above_the_threshold_alone() -> None:
    prediction = combine("abc", [make_scores((1.0, 0, 3), null=3.0)])
    assert prediction.null_odds == 2.0
    assert [prediction.answer(threshold) for threshold in (None, 2.5, 2.0, 1.5, -9.0)] == ["abc"] * 3 + [""] * 2
    nothing = combine("", [make_scores(null=-50.0)])
    assert nothing.null_odds == NO_SPAN
    assert nothing.answer() == nothing.answer(0.0) == ""


def test_predictions_are_averaged_by_place() -> None:
    def predict(odds: float, **shares: float) -> Prediction:
        places = {"abc": 0, "def": 4, "ghi": 8}
        return Prediction(
            tuple(Candidate(text, places[text], places[text] + 3, 0.0, share) for text, share in shares.items()), odds
        )

    one, two = predict(3.0, abc=0.6, ghi=0.4), predict(-1.0, ghi=0.7, **{"def": 0.3})
    mean = average_predictions([one, two])
    assert [candidate.text for candidate in mean.candidates] == ["ghi", "abc"]
    assert [candidate.probability for candidate in mean.candidates] == pytest.approx([1.1 / 1.7, 0.6 / 1.7])
    assert [math.exp(c.score) for c in mean.candidates] == pytest.approx([c.probability for c in mean.candidates])
    assert mean.null_odds == 1.0
    assert mean.answer() == "ghi"  # second in one, first in the other
    assert (mean.candidates[0].begin, mean.candidates[0].end) == (8, 11)
    # A member with one span, or none, does not drown the others.
    assert average_predictions([predict(0.0, abc=1.0), two, two]).answer() == "ghi"
    alone = average_predictions([two, Prediction((), 5.0)])
    assert [c.probability for c in alone.candidates] == pytest.approx([0.7, 0.3])
    assert alone.null_odds == 2.0
    assert average_predictions([Prediction((), 1.0)] * 2) == Prediction((), 1.0)
    with pytest.raises(RequestError, match="one model at least"):
        average_predictions([])


def test_rows_must_match() -> None:
    logits = np.zeros((2, 9), np.float32)
    with pytest.raises(RequestError, match="1 windows need as many rows of scores, not 2 and 2"):
        decode_plain([make_window(5)], logits, logits, WindowConfig())
    with pytest.raises(RequestError, match="a window of 9 tokens needs as many logits, not 8"):
        decode_plain([make_window(5)], logits[:1, :8], logits[:1, :8], WindowConfig())
    with pytest.raises(RequestError, match="as many rows"):
        combine_all([ask("abc")], [make_window(5)], [], WindowConfig())


def test_decoding_does_not_loop_over_tokens() -> None:
    windows = [make_window(361, begin=22)] * 50
    start, end = np.random.default_rng(0).normal(size=(2, 50, 384)).astype(np.float32)
    assert count_calls(lambda: decode_plain(windows, start, end, WindowConfig())) < 361 * 50
