"""The cost of a step on many workers follows from what is computed, what is sent, and when it is complete."""

import itertools
import json
from pathlib import Path

import pytest

from litebert.config import ModelConfig
from litebert.errors import RequestError
from litebert.model.cost import count_pretraining_parameters, training_flops
from litebert.model.sharing import without_sharing
from litebert.planning import cluster, planner
from litebert.planning.cluster import (
    BUCKET,
    FIRST_BUCKET,
    PAPER_SPEEDUPS,
    Link,
    Worker,
    bucket_gradients,
    compare_presets,
    exchange_seconds,
    gradient_bytes,
    gradient_schedule,
    step_cost,
)
from litebert.presets import PRESETS, preset_config
from litebert.quantities import parse_bandwidth, parse_rate
from tests.conftest import need

ALBERT, BERT = preset_config("albert-large"), preset_config("bert-large")
WORKER = Worker(rate=5e13, update=1e-10, fixed=0.01)
REAL = Link(bandwidth=25e9, efficiency=0.9, latency=1e-5, copying=1e-10, overlap=0.6)


def test_a_step_by_hand() -> None:
    """Four workers, two sequences each, nothing hidden: every part is a short sum."""
    config = preset_config("albert-base")
    worker, link = Worker(rate=1e12, update=1e-9, fixed=0.5), Link(8e9, 0.5, latency=0.01, copying=1e-9, overlap=0.0)
    cost = step_cost(config, batch=8, length=128, workers=4, worker=worker, link=link)
    assert cost.compute == pytest.approx(2 * 128 * training_flops(config, 128) / 1e12)
    assert cost.update == pytest.approx(11_813_810e-9)
    # 47.3 MB: heads (2.9 MB), then both shared blocks (28.4 MB), then the embeddings. Three buckets of six hops each;
    # 1.5 × the bytes at half a GB/s, and a nanosecond more for each byte.
    assert cost.communication == pytest.approx(3 * 6 * 0.01 + 1.5 * 47_255_240 / 0.5e9 + 47_255_240e-9)
    assert cost.hidden == 0
    assert cost.seconds == pytest.approx(cost.compute + cost.update + 0.5 + cost.communication)
    assert cost.tokens_per_second == pytest.approx(8 * 128 / cost.seconds)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_what_is_sent_is_four_bytes_a_parameter(name: str) -> None:
    config = preset_config(name)
    parameters = count_pretraining_parameters(config)
    assert gradient_bytes(config) == 4 * parameters
    for lean in (False, True):
        schedule = gradient_schedule(config, 128, lean)
        assert sum(count for _, count in schedule) == parameters
        assert sum(size for _, size in bucket_gradients(schedule)) == 4 * parameters
        times = [ready for ready, _ in schedule]
        assert times == sorted(times)
        assert 0 < times[0] < times[-1] == 1


def test_one_worker_exchanges_nothing() -> None:
    cost = step_cost(BERT, 64, 512, 1, WORKER, REAL)
    assert (cost.communication, cost.hidden, cost.communication_share) == (0, 0, 0)
    assert cost.seconds == cost.compute + cost.update + cost.fixed


@pytest.mark.parametrize("config", [ALBERT, BERT], ids=["albert", "bert"])
@pytest.mark.parametrize("lean", [False, True])
def test_more_bandwidth_is_never_slower(config: ModelConfig, lean: bool) -> None:
    links = [Link(bandwidth, 0.9, 1e-5, 1e-10, 0.7) for bandwidth in (1e8, 1e9, 1e10, 2e10, 1e11, 1e13)]
    for workers in (2, 8, 64, 512):
        seconds = [step_cost(config, 4096, 512, workers, WORKER, link, lean).seconds for link in links]
        assert seconds == sorted(seconds, reverse=True)
        assert seconds[0] > seconds[-1]


def test_parts_of_a_step_are_within_their_bounds() -> None:
    for config, workers, overlap in itertools.product((ALBERT, BERT), (2, 64, 4096), (0.0, 0.5, 1.0)):
        cost = step_cost(config, 4096, 128, workers, WORKER, Link(1e10, overlap=overlap))
        assert 0 <= cost.hidden <= cost.communication
        assert cost.hidden <= 2 / 3 * cost.compute * (1 + 1e-9)
        assert 0 <= cost.communication_share < 1


def test_a_shared_block_is_complete_at_the_end_and_hides_nothing() -> None:
    *_, feed_forward, attention, embeddings = gradient_schedule(ALBERT, 512)
    assert [round(ready, 2) for ready, _ in (feed_forward, attention, embeddings)] == [0.98, 1.0, 1.0]
    one_by_one = [ready for ready, _ in gradient_schedule(BERT, 512)[1:-1]]
    assert len(set(one_by_one)) == 48
    assert sum(one_by_one) / 48 == pytest.approx(0.5, abs=0.05)
    slow = Link(10e9)
    albert, bert = (step_cost(config, 4096, 512, 64, WORKER, slow) for config in (ALBERT, BERT))
    assert bert.hidden > 0.5 * bert.compute  # nearly all of the backward pass
    assert albert.hidden < 0.03 * albert.compute
    # The lean step hands over all layers at its end, whoever shares them.
    lean = step_cost(BERT, 4096, 512, 64, WORKER, slow, lean=True)
    assert lean.hidden < 0.05 * lean.communication


@pytest.mark.parametrize("sharing", ["all", "none", "attention", "ffn", "groups"])
def test_the_schedule_follows_the_sharing_plan(sharing: str) -> None:
    config = preset_config("albert-base").updated(sharing=sharing, num_groups=4 if sharing == "groups" else 1)
    blocks = gradient_schedule(config, 128)[1:-1]
    counts = {"all": 2, "none": 24, "attention": 13, "ffn": 13, "groups": 8}
    assert len(blocks) == counts[sharing]
    # Half of the layers are done at half of the pass; what they share with the others is not.
    early = sum(1 for ready, _ in blocks if ready < 0.52)
    assert early == {"all": 0, "none": 12, "attention": 6, "ffn": 6, "groups": 4}[sharing]
    assert max(ready for ready, _ in blocks) == pytest.approx(1)


def test_buckets_are_filled_as_by_ddp() -> None:
    million = 10**6
    schedule = [(0.1, million // 5), (0.2, million), (0.3, 3 * million), (0.4, 5 * million), (1.0, million)]
    assert bucket_gradients(schedule) == [(0.2, 4_800_000), (0.4, 32_000_000), (1.0, 4_000_000)]
    assert BUCKET < 32_000_000


def test_the_limits_of_buckets_are_those_of_ddp() -> None:
    need("torch")
    import torch.distributed as dist
    from torch.nn.parallel import distributed

    assert dist._DEFAULT_FIRST_BUCKET_BYTES == FIRST_BUCKET
    assert distributed._DEFAULT_BUCKET_CAP_MB * 2**20 == BUCKET


def test_the_constants_are_those_of_the_record() -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "2026-11-17-ddp-link.json"
    fitted = json.loads(path.read_text(encoding="utf-8"))["fitted"]
    for name in ("efficiency", "overlap", "latency", "copying", "update", "fixed"):
        assert getattr(cluster, name.upper()) == pytest.approx(fitted[name], rel=0.05), name


def test_albert_gains_as_the_link_gets_slower() -> None:
    gains = []
    for bandwidth in (1e13, 1e11, 2.5e10, 1e10, 1e9):
        albert, bert = (step_cost(it, 4096, 512, 64, Worker(5e13), Link(bandwidth)).seconds for it in (ALBERT, BERT))
        gains.append(bert / albert)
    assert gains == sorted(gains)
    assert gains[0] == pytest.approx(1, abs=0.1)  # the same operations, but for BERT's wider head
    most = gradient_bytes(BERT) / gradient_bytes(ALBERT)
    assert 0.5 * most < gains[-1] < most


def test_bert_of_the_same_shape() -> None:
    twin = without_sharing(ALBERT)
    assert count_pretraining_parameters(twin) == count_pretraining_parameters(BERT)
    grouped = preset_config("albert-base").updated(sharing="groups", num_groups=2, num_inner_layers=2)
    assert without_sharing(grouped).num_layers == 24
    names = [
        [row["name"] for row in compare_presets([it], 64, 128, 2, WORKER, REAL)] for it in ("albert-mini", "bert-base")
    ]
    assert names == [["albert-mini", "bert-mini"], ["bert-base", "albert-base"]]
    (row, other) = compare_presets(["albert-xlarge"], 64, 128, 2, WORKER, REAL)
    assert other["name"] == "BERT of its shape"
    assert other["speed_over_bert"] == 1 < row["speed_over_bert"]


def test_the_papers_models_stand_beside_its_figures() -> None:
    plan = planner.plan_cluster(None, 4096, 512, 64, 25e9, rate=5e13)
    rows = {row["name"]: row for row in plan["rows"]}
    assert {name: row["paper_speedup"] for name, row in rows.items()} == PAPER_SPEEDUPS
    assert rows["bert-large"]["speed_over_bert"] == 1
    assert rows["albert-large"]["efficiency"] == pytest.approx(rows["albert-large"]["speedup"] / 64)
    assert rows["albert-base"]["speed_over_bert"] > rows["bert-base"]["speed_over_bert"] > 1


def test_a_worker_is_measured_where_no_rate_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, told = [], []
    monkeypatch.setattr(planner, "measure_speed", lambda config, rows, length: asked.append((rows, length)) or 100.0)
    plan = planner.plan_cluster("albert-base", 64, 512, 32, 1e9, before_measuring=lambda: told.append(True))
    assert (asked, told, plan["measured"]) == ([(2, 512)], [True], True)
    assert plan["rate"] == pytest.approx(100 * training_flops(preset_config("albert-base"), 512))
    assert all(row["update"] > 0 for row in plan["rows"])
    monkeypatch.setattr(planner, "measure_speed", lambda *_: None)
    with pytest.raises(RequestError, match="--rate"):
        planner.plan_cluster("albert-base", 64, 512, 32, 1e9)


def test_a_wrong_request_is_refused_before_anything_is_measured() -> None:
    def measured() -> None:
        raise AssertionError("it was measured")

    for workers, words in ((0, "at least 1 worker"), (3, "divided among 3")):
        with pytest.raises(RequestError, match=words):
            planner.plan_cluster("albert-base", 64, 512, workers, 1e9, before_measuring=measured)
    with pytest.raises(RequestError, match="at most 512 tokens"):
        planner.plan_cluster("albert-base", 64, 513, 2, 1e9, before_measuring=measured)


def test_a_ring_sends_twice_all_but_a_share() -> None:
    assert exchange_seconds(10**9, 2, Link(8e9)) == pytest.approx(1)
    assert exchange_seconds(10**9, 1000, Link(8e9)) == pytest.approx(2, rel=0.01)
    assert exchange_seconds(10**9, 1, REAL) == 0
    assert exchange_seconds(0, 3, Link(8e9, latency=0.5)) == 2


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("25Gbit", 25e9),
        ("25 Gbit/s", 25e9),
        ("1.5Tbps", 1.5e12),
        ("300Mb/s", 3e8),
        ("3GB/s", 2.4e10),
        ("9600bit", 9600),
    ],
)
def test_speeds_of_links(text: str, bits: float) -> None:
    assert parse_bandwidth(text) == bits


@pytest.mark.parametrize(
    "text", ["25", "25G", "25GB", "0Gbit", "-1Gbit", "25Xbit", "fast", "1" * 31 + "Gbit", "9" * 20 + "Tbit"]
)
def test_what_is_no_speed_of_a_link(text: str) -> None:
    with pytest.raises(RequestError, match="write it like"):
        parse_bandwidth(text)


def test_rates() -> None:
    assert [parse_rate(it) for it in ("50T", "300 GFLOP/s", "1G", "2PFLOPS")] == [5e13, 3e11, 1e9, 2e15]
    for text in ("0", "50", "fast", "50X", "", "9" * 25 + "P"):  # 50: the T was forgotten
        with pytest.raises(RequestError, match="write it like"):
            parse_rate(text)
