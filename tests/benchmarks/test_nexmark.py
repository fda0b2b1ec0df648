"""Nexmark: the generator is a function of seed and event number with the right skew, and the queries give the right answers."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.nexmark.answers import ANSWERS, bound_ms
from benchmarks.nexmark.generator import (
    BID,
    COLUMNS,
    CYCLE,
    KINDS,
    NexmarkSpec,
    bidder,
    column_type,
    events,
    kind_of,
    mixed,
    time_ms,
)
from benchmarks.nexmark.queries import GAP_MS, QUERIES, SIZE_MS, SLIDE_MS

pytestmark = pytest.mark.full

SPEC = NexmarkSpec(20_000, seed=7, rate=200, disorder_ms=1_500)
ALL = {kind: [*columns, "n"] for kind, columns in COLUMNS.items()}


@pytest.mark.parametrize("kind", list(KINDS))
def test_events_depend_on_the_seed_only(kind):
    again = NexmarkSpec(20_000, seed=7, rate=200, disorder_ms=1_500)
    assert events(SPEC, 0, 5_000, kind, ALL[kind]) == events(again, 0, 5_000, kind, ALL[kind])
    other = events(NexmarkSpec(20_000, seed=8, rate=200, disorder_ms=1_500), 0, 5_000, kind, ALL[kind])
    assert other.column("dateTime") != events(SPEC, 0, 5_000, kind, ALL[kind]).column("dateTime")


@pytest.mark.parametrize("kind", list(KINDS))
def test_events_do_not_depend_on_the_cut_into_tasks(kind):
    whole = events(SPEC, 0, 3_000, kind, ALL[kind])
    parts = [events(SPEC, low, high, kind, ALL[kind]) for low, high in ((0, 1), (1, 777), (777, 2_999), (2_999, 3_000))]
    assert pa.Table.from_batches(parts).combine_chunks() == pa.Table.from_batches([whole]).combine_chunks()


def test_persons_auctions_and_bids_have_nexmarks_proportions():
    assert [int(count) for count in np.bincount(kind_of(np.arange(10 * CYCLE)))] == [10, 30, 460]


def test_ids_count_up_and_may_be_referenced_shortly_before_they_appear():
    persons, auctions, bids = (events(SPEC, 0, 20_000, kind, ALL[kind]).to_pydict() for kind in KINDS)
    assert persons["id"] == list(range(1_000, 1_400))
    assert auctions["id"] == list(range(1_000, 2_200))
    assert max(auctions["seller"]) < 1_400 + 10
    assert all(0 <= newest - bid + 10 <= 210 for newest, bid in zip(_newest(auctions, bids["n"]), bids["auction"], strict=True))
    assert set(auctions["category"]) == set(range(10, 15))
    assert all(expires > begins for begins, expires in zip(auctions["dateTime"], auctions["expires"], strict=True))
    assert all(first < reserve for first, reserve in zip(auctions["initialBid"], auctions["reserve"], strict=True))


def _newest(auctions, numbers):
    return [1_000 + int(place) - 1 for place in np.searchsorted(auctions["n"], numbers)]


def test_one_key_of_each_kind_is_hot_at_a_time():
    """Check the shares: the hot auction gets half of the bids, the hot bidder and seller three quarters, plus a few random ones."""
    spec = NexmarkSpec(200_000)
    first, stop = 100_000, 101_600  # between two changes of the hot auction
    bids = events(spec, first, stop, "bid", ["auction", "bidder"]).to_pydict()
    auction, share = Counter(bids["auction"]).most_common(1)[0]
    assert auction % 100 == 0
    assert 0.45 < share / len(bids["auction"]) < 0.56
    who, share = Counter(bids["bidder"]).most_common(1)[0]
    assert who % 100 == 1
    assert 0.7 < share / len(bids["bidder"]) < 0.8
    seller, share = Counter(events(spec, first, stop, "auction", ["seller"]).to_pydict()["seller"]).most_common(1)[0]
    assert seller % 100 == 0
    assert 0.6 < share / (3 * 32) < 0.9


def test_prices_channels_and_row_sizes_have_nexmarks_distribution():
    bids = events(NexmarkSpec(100_000), 0, 100_000, "bid", ALL["bid"])
    prices = bids.column("price").to_numpy()
    assert prices.min() >= 100
    assert prices.max() <= 100_000_000
    shares = [((prices >= 10**k) & (prices < 10 ** (k + 1))).mean() for k in range(2, 8)]
    assert all(0.15 < share < 0.18 for share in shares)
    channels = Counter(bids.column("channel").to_pylist())
    assert 0.48 < sum(count for _, count in channels.most_common(4)) / len(bids) < 0.52
    assert len({(channel, url) for channel, url in zip(*(bids.column(name).to_pylist() for name in ("channel", "url")))}) == len(channels)  # fmt: skip # noqa: B905
    for kind, size in {"person": 200, "auction": 500, "bid": 100}.items():
        table = events(NexmarkSpec(100_000), 0, 100_000, kind, ALL[kind][:-1])
        texts = sum(sum(map(len, column.to_pylist())) for column in table.columns if column.type == pa.string())
        numbers = 8 * sum(column.type != pa.string() for column in table.columns)
        assert 0.85 * size < texts / len(table) + numbers < 1.15 * size


def test_event_times_have_the_requested_disorder_and_delay():
    calm = events(NexmarkSpec(10_000, rate=1_000), 0, 10_000, "bid", ["dateTime", "n"])
    times = calm.column("dateTime").cast(pa.int64()).to_numpy()
    assert (times == 1_700_000_000_000_000 + calm.column("n").to_numpy() * 1_000).all()
    late = events(NexmarkSpec(10_000, rate=1_000, delayed_percent=10, delay_ms=3_000), 0, 10_000, "bid", ["dateTime"])
    behind = times - late.column("dateTime").cast(pa.int64()).to_numpy()
    assert behind.min() == 0
    assert 2_900_000 < behind.max() <= 3_000_000
    assert 0.08 < (behind > 0).mean() < 0.12


def test_mixed_stream_has_separate_columns_for_each_kind():
    names = ["kind", "dateTime", "n", "person_id", "auction_seller", "bid_price"]
    rows = mixed(SPEC, 0, 500, list(KINDS), names).to_pylist()
    assert [row["n"] for row in rows] == list(range(500))
    for kind, column in (("person", "id"), ("auction", "seller"), ("bid", "price")):
        own = [row for row in rows if row["kind"] == KINDS[kind]]
        assert [row[f"{kind}_{column}"] for row in own] == events(SPEC, 0, 500, kind, [column]).column(0).to_pylist()
        assert all(row[f"{kind}_{column}"] is None for row in rows if row["kind"] != KINDS[kind])


def test_columns_have_nexmarks_types():
    assert column_type("bid", "price") == pa.int64()
    assert column_type("auction", "expires") == pa.timestamp("us", tz="UTC")


def milliseconds(rows):
    return [int(value.timestamp() * 1000 + 0.5) for value in rows["dateTime"]]


def one_by_one():
    """Return the answers by going through the events one after another."""
    bids, persons, auctions = (events(SPEC, 0, SPEC.events, kind, ALL[kind]).to_pydict() for kind in ("bid", "person", "auction"))
    counts, highest, sellers = defaultdict(Counter), {}, defaultdict(Counter)
    for time, auction, who, price in zip(milliseconds(bids), bids["auction"], bids["bidder"], bids["price"], strict=True):
        for start in range(time - time % SLIDE_MS, time - SIZE_MS, -SLIDE_MS):
            counts[start + SIZE_MS][auction] += 1
        end = time - time % SIZE_MS + SIZE_MS
        highest[end] = max(highest.get(end, (0, 0)), (price, auction * 1_000_000 + who))
    for time, seller in zip(milliseconds(auctions), auctions["seller"], strict=True):
        sellers[time // SIZE_MS][seller] += 1
    registered = [(time // SIZE_MS, who) for time, who in zip(milliseconds(persons), persons["id"], strict=True)]
    return {
        "q5": {(end, *min(window.items(), key=lambda item: (-item[1], item[0]))) for end, window in counts.items()},
        "q7": {(end, who, price) for end, (price, who) in highest.items()},
        "q8": {((win + 1) * SIZE_MS, who, sellers[win][who]) for win, who in registered if sellers[win][who]},
        "q11": set(sessions(bids)),
    }


def sessions(bids):
    by_bidder = defaultdict(list)
    for time, who in sorted(zip(milliseconds(bids), bids["bidder"], strict=True)):
        if by_bidder[who] and time - by_bidder[who][-1][0] <= GAP_MS:
            by_bidder[who][-1] = (time, by_bidder[who][-1][1] + 1)
        else:
            by_bidder[who].append((time, 1))
    return [(last + GAP_MS, who, bids) for who, found in by_bidder.items() for last, bids in found]


def test_answers_equal_a_loop_over_events():
    slow = one_by_one()
    for name, function in ANSWERS.items():
        answer = function(SPEC)
        assert set(zip(*(column.tolist() for column in (answer.end, answer.who, answer.what)), strict=True)) == slow[name], name
        assert len(answer.end) == len(slow[name])
        assert answer.until(bound_ms(SPEC)).checks["rows"] < len(slow[name])


def test_source_options_become_a_request():
    pytest.importorskip(
        "pyspark.sql.streaming.datasource", reason="this Spark has no source in Python that takes part of what there is"
    )
    from benchmarks.nexmark.source import Request

    request = Request.of({"events": "1000", "kind": "person,auction", "columns": "kind,dateTime,auction_id", "partitions": "3"})
    assert [str(kind) for kind in request.types.values()] == ["int64", "timestamp[us, tz=UTC]", "int64"]
    assert [(part.first, part.stop) for part in request.cut(10, 20)] == [(10, 13), (13, 16), (16, 20)]
    assert request.cut(5, 5) == []
    for wrong in ({}, {"events": "1", "speed": "2"}, {"events": "1", "kind": "bids"}, {"events": "1", "columns": "prize"}):
        with pytest.raises(ValueError, match="panestream_nexmark"):
            Request.of(wrong)


@pytest.fixture(scope="module")
def batch(spark):
    from benchmarks.nexmark.measure import Run, load

    def of(name, streaming=False):
        spec = {"events": SPEC.events, "seed": SPEC.seed, "rate": SPEC.rate, "disorder_ms": SPEC.disorder_ms}
        return load(spark, QUERIES[name], Run("panestream", name, spec, 5_000), streaming=streaming)

    return of


@pytest.mark.spark
@pytest.mark.parametrize("name", list(ANSWERS))
def test_batch_queries_give_the_right_answers(name, batch):
    from benchmarks.nexmark.measure import checks

    query = QUERIES[name]
    found = query.answer(query.build(batch(name)).main).agg(*checks(None)).first().asDict()
    assert found == ANSWERS[name](SPEC).checks


@pytest.mark.spark
def test_processing_time_query_counts_every_bid_once(batch):
    query = QUERIES["q12"]
    found = {(row.who, row.what) for row in query.answer(query.build(batch("q12")).main).collect()}
    bids = np.arange(SPEC.events)
    assert sum(what for _, what in found) == SPEC.events // CYCLE * 46
    assert {who for who, _ in found} == set(bidder(SPEC, bids[kind_of(bids) == KINDS["bid"]]).tolist())


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore::panestream.errors.PanestreamWarning")  # few rows, so a warning about speed does not matter
@pytest.mark.parametrize("name", ["q5", "q8"])
def test_streaming_queries_give_the_right_answers(name, batch, tmp_path):
    from benchmarks.nexmark.measure import drain, through_start

    query, bound = QUERIES[name], bound_ms(SPEC)
    if name == "q5":
        progress, found = through_start(query, batch(name, streaming=True), bound, tmp_path, 0)
    else:
        progress, found = drain(query.build(batch(name, streaming=True)).main, query, bound, tmp_path, checked=True)
    assert found == ANSWERS[name](SPEC).until(bound).checks
    assert sum(each["numInputRows"] for each in progress) == SPEC.events // CYCLE * (46 if name == "q5" else 4)


def test_bound_is_reached_by_the_events_of_each_query():
    """Check events of which an auction has the largest time, so that a query of bids sees a smaller one."""
    spec = NexmarkSpec(events=10_000_000, seed=1, rate=10_000, disorder_ms=2_000)
    n = np.arange(9_000_000, 10_000_000)
    times = time_ms(spec, n)
    largest = [int(times[some].max()) for some in (kind_of(n) == BID, kind_of(n) != BID)]
    assert largest[0] < largest[1]
    assert bound_ms(spec) == largest[0] - 4_000 - 2
