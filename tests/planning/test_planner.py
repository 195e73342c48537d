"""What the planner says follows from what it measured."""

from unittest import mock

import pytest

from litebert.errors import RequestError
from litebert.model.cost import forward_flops, training_flops, training_memory
from litebert.planning import planner
from litebert.presets import PRESETS, preset_config
from litebert.pretraining.recipes import budget_run
from litebert.quantities import parse_count, parse_duration


@pytest.mark.parametrize("preset", ["albert-mini", "bert-mini", "albert-large-1l", "albert-base-e128-none"])
def test_speed_is_extrapolated_from_few_layers(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = PRESETS[preset].config
    monkeypatch.setattr(planner, "_time_steps", lambda *_, depths: tuple(1.0 + 0.5 * depth for depth in depths))
    monkeypatch.setattr(planner, "_time_update", lambda config: 0.0)
    speed = planner.measure_speed(config, 4, 32)
    assert speed == pytest.approx(4 * 32 / (1.0 + 0.5 * config.num_layers))


def test_a_measured_speed_is_close_to_real_steps() -> None:
    config = PRESETS["albert-mini"].config
    ratios = []
    for _ in range(5):  # machines are shared and noisy; the point is the order
        speed = planner.measure_speed(config, 4, 64)
        assert speed is not None
        (seconds,) = planner._time_steps(config, 4, 64, recompute=False, depths=(6,))
        ratios.append(speed * seconds / (4 * 64))
        if 1 / 3 < ratios[-1] < 3:
            return
    pytest.fail(f"the speed is {ratios} times that of real steps")


def advise(monkeypatch: pytest.MonkeyPatch, hours: float, corpus: int) -> planner.Recommendation:
    """On a machine of 100 GFLOP/s with plenty of memory."""
    monkeypatch.setattr(planner, "measure_speed", lambda config, b, n: 1e11 / training_flops(config, n))
    monkeypatch.setattr(planner, "available_memory", lambda: 10**12)
    return planner.recommend(hours * 3600, corpus)


def test_more_time_gives_a_larger_model(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = 3 * 10**9
    chosen = [advise(monkeypatch, hours, corpus).preset for hours in (0.1, 3, 60, 500, 5000)]
    assert chosen[0] == "albert-mini"
    assert [planner.LADDER.index(name) for name in chosen] == sorted(planner.LADDER.index(name) for name in chosen)
    assert chosen[-1] != "albert-mini"


def test_the_steps_fill_the_time_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    advice = advise(monkeypatch, 3, 10**9)
    assert advice.seconds == pytest.approx(3 * 3600, rel=0.01)
    assert advice.steps * advice.batch * advice.length == pytest.approx(advice.tokens, rel=0.05)


def test_a_small_corpus_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    advice = advise(monkeypatch, 100, 10**6)
    assert advice.epochs == pytest.approx(planner.MOST_EPOCHS)
    assert advice.seconds < 100 * 3600


def test_too_little_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "more time or more text" in advise(monkeypatch, 0.01, 10**9).reason


def test_recomputing_saves_memory_everywhere() -> None:
    for preset in PRESETS.values():
        if preset.config.num_layers > 3:
            plain, saving = (training_memory(preset.config, 8, 256, choice) for choice in (False, True))
            assert saving.activations < 0.7 * plain.activations


def test_gathering_saves_most_of_the_last_layer() -> None:
    config = PRESETS["albert-base"].config
    assert 0.9 < training_flops(config, 128) / training_flops(config, 128, gathered=False) < 0.96
    assert forward_flops(config, 128, kept=128) == forward_flops(config, 128)


def test_stages_that_find_replaced_words_are_slower_and_larger() -> None:
    config = budget_run(preset_config("albert-mini"), 7200.0)
    with mock.patch("litebert.planning.planner.measure_speed", return_value=1000.0):
        plan = planner.plan_run(config.model, config.train, 128, config.replaces_at)
    speeds = [(stage["depth"], stage["tokens_per_second"]) for stage in plan["stages"]]
    assert speeds[:3] == [(1, 1000.0), (2, 1000.0), (3, 1000.0)]
    assert all(depth == 6 and 800 < speed < 900 for depth, speed in speeds[3:])
    with mock.patch("litebert.planning.planner.measure_speed", return_value=1000.0):
        plain = planner.plan_run(config.model, config.train, 128)
    more = [stage["memory"] / same["memory"] for stage, same in zip(plan["stages"], plain["stages"], strict=True)]
    assert more[:3] == [1.0, 1.0, 1.0]
    assert all(1.0 < share < 1.3 for share in more[3:])  # the last layer is kept for every token


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "1e9", "5 apples", "1..2", "9" * 40])
def test_numbers_that_are_none(text: str) -> None:
    with pytest.raises(RequestError, match="write it like"):
        parse_count(text)
    with pytest.raises(RequestError, match="write it like"):
        parse_duration(text)


def test_numbers() -> None:
    assert [parse_count(text) for text in ("80k", "1.5M", "2B", "1,000", "25_000")] == [
        80_000,
        1.5e6,
        2e9,
        1000,
        25_000,
    ]
    assert [parse_duration(text) for text in ("45s", "30m", "1h 30m", "2d", "0.5h")] == [45, 1800, 5400, 172_800, 1800]
