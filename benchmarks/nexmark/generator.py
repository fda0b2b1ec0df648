"""The events, as Arrow columns made by numpy: a pure function of options and event number.

Kinds, ids and skew follow the reference generator (Apache-2.0, read and not copied), with these differences:

- Everything follows from the seed; the reference draws most fields unseeded.
- The first event is number 0, a person; the reference begins with an auction whose seller never comes.
- The base of person ids is added once to a bidder, so that a bidder names the person meant; the reference adds it twice.
- Event times start at a fixed moment, and may be out of order (``disorder_ms``) or late (``delayed_percent``, ``delay_ms``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.nexmark import words
from benchmarks.nexmark.chance import Chance, Int64s

PERSON, AUCTION, BID = 0, 1, 2
KINDS = {"person": PERSON, "auction": AUCTION, "bid": BID}
PROPORTIONS = (1, 3, 46)
CYCLE = sum(PROPORTIONS)
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1_000, 10, 5
HOT_EVERY = 100
"""A new hot person or auction appears after this many."""
ACTIVE_PERSONS, IN_FLIGHT, AHEAD = 1_000, 100, 10
"""The number of active persons and of auctions open for bids, and how many of either may be referenced before they appear."""
AVERAGE_BYTES = {"person": 200, "auction": 500, "bid": 100}
INSTANT = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class NexmarkSpec:
    """Which events.

    Attributes:
        events: the number of events of all kinds.
        seed: the seed of all random choices.
        rate: events per second of event time.
        base_ms: event time of the first, in ms since the epoch.
        disorder_ms: the maximum step back of event times. No event is late for a watermark with this delay.
        delayed_percent, delay_ms: the percentage of events with a larger step back, and its maximum.
    """

    events: int
    seed: int = 1
    rate: int = 10_000
    base_ms: int = 1_700_000_000_000
    disorder_ms: int = 0
    delayed_percent: int = 0
    delay_ms: int = 3_000
    chance: Chance = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "chance", Chance(self.seed))


def kind_of(n: Int64s) -> Int64s:
    """Return the kind of each event, which is not random."""
    in_cycle = n % CYCLE
    return np.where(in_cycle < PROPORTIONS[0], PERSON, np.where(in_cycle < PROPORTIONS[0] + PROPORTIONS[1], AUCTION, BID))


def last_person(n: Int64s) -> Int64s:
    """Return the number (from 0) of the newest person when event ``n`` happens."""
    return n // CYCLE


def last_auction(n: Int64s) -> Int64s:
    """Return the number of the newest auction when event ``n`` (not a person) happens. An auction has its own number."""
    return n // CYCLE * PROPORTIONS[1] + np.minimum(n % CYCLE, PROPORTIONS[1]) - 1


def time_ms(spec: NexmarkSpec, n: Int64s) -> Int64s:
    """Event times."""
    times = spec.base_ms + n * 1000 // spec.rate
    if spec.disorder_ms:
        times = times - spec.chance.below(n, 0, spec.disorder_ms + 1)
    if spec.delayed_percent:
        delayed = spec.chance.below(n, 1, 100) < spec.delayed_percent
        times = np.where(delayed, times - 1 - spec.chance.below(n, 2, spec.delay_ms), times)
    return times


def _active_person(spec: NexmarkSpec, n: Int64s, purpose: int) -> Int64s:
    newest = last_person(n)
    active = np.minimum(newest + 1, ACTIVE_PERSONS)
    return newest + 1 - active + spec.chance.below(n, purpose, active + AHEAD)


def seller(spec: NexmarkSpec, n: Int64s) -> Int64s:
    """Return sellers, three in four of them the hot seller."""
    hot = spec.chance.below(n, 3, 4) > 0
    return FIRST_ID + np.where(hot, last_person(n) // HOT_EVERY * HOT_EVERY, _active_person(spec, n, 4))


def bid_auction(spec: NexmarkSpec, n: Int64s) -> Int64s:
    """Return auctions, half of them the hot auction."""
    newest = last_auction(n)
    oldest = np.maximum(newest - IN_FLIGHT, 0)
    other = oldest + spec.chance.below(n, 4, newest + AHEAD + 1 - oldest)
    return FIRST_ID + np.where(spec.chance.below(n, 3, 2) > 0, newest // HOT_EVERY * HOT_EVERY, other)


def bidder(spec: NexmarkSpec, n: Int64s) -> Int64s:
    """Return bidders, three in four of them the hot bidder, whose id follows the hot seller's."""
    hot = spec.chance.below(n, 5, 4) > 0
    return FIRST_ID + np.where(hot, last_person(n) // HOT_EVERY * HOT_EVERY + 1, _active_person(spec, n, 6))


def price(spec: NexmarkSpec, n: Int64s, purpose: int = 7) -> Int64s:
    """Return prices from 1.00 to 1,000,000.00 in cents, with each order of magnitude equally frequent."""
    return np.round(100 * 10 ** (6 * spec.chance.uniform(n, purpose))).astype(np.int64)


def _expires_ms(spec: NexmarkSpec, n: Int64s) -> Int64s:
    # On average, an auction lasts until as many auctions arrive as are open.
    horizon = max(1, IN_FLIGHT * CYCLE // PROPORTIONS[1] * 1000 // spec.rate)
    return time_ms(spec, n) + 1 + spec.chance.below(n, 8, 2 * horizon)


def _instants(ms: Int64s) -> pa.Array:
    return pa.array(ms * 1000).cast(INSTANT)


Column = Callable[[NexmarkSpec, Int64s], pa.Array]


def _numbers(function: Callable[[NexmarkSpec, Int64s], Int64s]) -> Column:
    return lambda spec, n: pa.array(function(spec, n))


def _text(pool: Callable[[int], pa.Array], purpose: int) -> Column:
    """Make a column from a pool of texts."""

    def column(spec: NexmarkSpec, n: Int64s) -> pa.Array:
        texts = pool(spec.seed)
        return texts.take(pa.array(spec.chance.below(n, purpose, len(texts))))

    return column


def _channel_text(pool: Callable[[int], pa.Array]) -> Column:
    """Make a column of channels. Half of the bids use one of the hot channels, which are first in the pool."""

    def column(spec: NexmarkSpec, n: Int64s) -> pa.Array:
        texts, hot = pool(spec.seed), spec.chance.below(n, 9, 2) > 0
        number = spec.chance.below(n, 10, np.where(hot, words.HOT_CHANNELS, len(texts) - words.HOT_CHANNELS))
        return texts.take(pa.array(np.where(hot, number, words.HOT_CHANNELS + number)))

    return column


def _extra(kind: str) -> Column:
    return _text(partial(words.paddings, AVERAGE_BYTES[kind] - words.OTHER_BYTES[kind]), 20)


_TIME: Column = lambda spec, n: _instants(time_ms(spec, n))  # noqa: E731
_NUMBER: Column = lambda _spec, n: pa.array(n)  # noqa: E731
COLUMNS: dict[str, dict[str, Column]] = {
    "person": {
        "id": _numbers(lambda _spec, n: FIRST_ID + last_person(n)),
        "name": _text(words.names, 11),
        "emailAddress": _text(words.addresses, 12),
        "creditCard": _text(words.credit_cards, 13),
        "city": _text(words.cities, 14),
        "state": _text(words.states, 15),
        "dateTime": _TIME,
        "extra": _extra("person"),
    },
    "auction": {
        "id": _numbers(lambda _spec, n: FIRST_ID + last_auction(n)),
        "itemName": _text(words.items, 16),
        "description": _text(words.descriptions, 17),
        "initialBid": _numbers(price),
        "reserve": _numbers(lambda spec, n: price(spec, n) + price(spec, n, 18)),
        "dateTime": _TIME,
        "expires": lambda spec, n: _instants(_expires_ms(spec, n)),
        "seller": _numbers(seller),
        "category": _numbers(lambda spec, n: FIRST_CATEGORY + spec.chance.below(n, 19, CATEGORIES)),
        "extra": _extra("auction"),
    },
    "bid": {
        "auction": _numbers(bid_auction),
        "bidder": _numbers(bidder),
        "price": _numbers(price),
        "channel": _channel_text(words.channels),
        "url": _channel_text(words.urls),
        "dateTime": _TIME,
        "extra": _extra("bid"),
    },
}
"""The columns of each kind, and ``n``, the event's number, if requested."""
HIDDEN: dict[str, Column] = {"n": _NUMBER}


def column_type(kind: str, name: str) -> pa.DataType:
    """Return the type of a column, from one value of it."""
    return {**COLUMNS[kind], **HIDDEN}[name](NexmarkSpec(1), np.array([CYCLE - 1])).type


def events(spec: NexmarkSpec, first: int, stop: int, kind: str, names: Sequence[str]) -> pa.RecordBatch:
    """Return the events of one kind among the numbers ``first`` to ``stop - 1``."""
    n = np.arange(first, stop, dtype=np.int64)
    n = n[kind_of(n) == KINDS[kind]]
    columns = {**COLUMNS[kind], **HIDDEN}
    return pa.RecordBatch.from_arrays([columns[name](spec, n) for name in names], names=list(names))


def mixed(spec: NexmarkSpec, first: int, stop: int, kinds: Sequence[str], names: Sequence[str]) -> pa.RecordBatch:
    """Return events of several kinds in one stream: a column ``kind``, then columns such as ``person_id``, null for other kinds.

    Args:
        spec: which events.
        first: the number of the first.
        stop: the number after the last.
        kinds: which.
        names: ``kind``, ``dateTime``, ``n``, and ``<kind>_<column>``.
    """
    n = np.arange(first, stop, dtype=np.int64)
    kind = kind_of(n)
    wanted = np.isin(kind, [KINDS[name] for name in kinds])
    n, kind = n[wanted], kind[wanted]
    return pa.RecordBatch.from_arrays([_mixed_column(spec, n, kind, name) for name in names], names=list(names))


def _mixed_column(spec: NexmarkSpec, n: Int64s, kind: Int64s, name: str) -> pa.Array:
    if name == "kind":
        return pa.array(kind)
    if name in ("dateTime", "n"):
        return (_TIME if name == "dateTime" else _NUMBER)(spec, n)
    of, column = name.split("_", 1)
    own = kind == KINDS[of]
    row = np.cumsum(own) - 1
    return COLUMNS[of][column](spec, n[own]).take(pa.array(row, mask=~own))
