"""The right answers by numpy alone: sorting and counting all events of the spec, without windows, watermarks or Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.nexmark.chance import Int64s
from benchmarks.nexmark.generator import (
    AUCTION,
    BID,
    FIRST_ID,
    PERSON,
    NexmarkSpec,
    bid_auction,
    bidder,
    kind_of,
    last_person,
    price,
    seller,
    time_ms,
)
from benchmarks.nexmark.queries import GAP_MS, SIZE_MS, SLIDE_MS, WATERMARK_DELAY_MS


@dataclass(frozen=True)
class Answer:
    """Result rows as columns: window end (ms), subject, and figure."""

    end: Int64s
    who: Int64s
    what: Int64s

    def until(self, bound_ms: int | None) -> Answer:
        """Return the rows of windows that end at the bound or before, or all for None."""
        if bound_ms is None:
            return self
        closed = self.end <= bound_ms
        return Answer(self.end[closed], self.who[closed], self.what[closed])

    @property
    def checks(self) -> dict[str, int]:
        """Return the number of rows, sums, and a sum that depends on which figure belongs to whom."""
        crossed = (self.who % 1_000_003) * (self.what % 1_009) + self.end // 1_000 % 100_003 * (self.what % 997)
        return {"rows": len(self.end), "who": int(self.who.sum()), "what": int(self.what.sum()), "crossed": int(crossed.sum())}


def bound_ms(spec: NexmarkSpec) -> int:
    """Return the last window end that all must reach at the end of the input, with any kind of watermark.

    A query sees only the time of its own input: bids, or persons and auctions.
    """
    n = np.arange(max(0, spec.events - 1_000_000), spec.events)
    times, are_bids = time_ms(spec, n), kind_of(n) == BID
    return min(int(times[some].max()) for some in (are_bids, ~are_bids) if some.any()) - WATERMARK_DELAY_MS - 2


def _numbers(spec: NexmarkSpec, kind: int) -> Int64s:
    n = np.arange(spec.events)
    numbers: Int64s = n[kind_of(n) == kind]
    return numbers


def _best(group: Int64s, figure: Int64s, then_smallest: Int64s) -> Int64s:
    """Return the index of each group's row with the largest figure. A tie goes to the smallest ``then_smallest``."""
    order = np.lexsort((then_smallest, -figure, group))
    return order[np.r_[True, np.diff(group[order]) != 0]]


def q5(spec: NexmarkSpec) -> Answer:
    """Count bids per slide and auction, and add each count to the windows of the slide."""
    n = _numbers(spec, BID)
    slide, auction = time_ms(spec, n) // SLIDE_MS, bid_auction(spec, n)
    width = int(auction.max()) + 1
    cells, counts = np.unique(slide * width + auction, return_counts=True)
    per_window = SIZE_MS // SLIDE_MS
    every = np.concatenate([cells + later * width for later in range(per_window)])
    pairs, inverse = np.unique(every, return_inverse=True)
    bids = np.bincount(inverse, np.tile(counts, per_window)).astype(np.int64)
    end, who = (pairs // width + 1) * SLIDE_MS, pairs % width
    best = _best(end, bids, who)
    return Answer(end[best], who[best], bids[best])


def q7(spec: NexmarkSpec) -> Answer:
    """Return the largest price of each window.

    Raises:
        ValueError: two bids share the maximum of a window, so the winner is not defined.
    """
    n = _numbers(spec, BID)
    end, prices = (time_ms(spec, n) // SIZE_MS + 1) * SIZE_MS, price(spec, n)
    best = _best(end, prices, n)
    windows, of = np.unique(end, return_inverse=True)
    if np.count_nonzero(prices == prices[best][of]) > len(windows):
        raise ValueError("two bids share the highest price of a window: choose another seed")
    won = n[best]
    return Answer(end[best], bid_auction(spec, won) * 1_000_000 + bidder(spec, won), prices[best])


def q8(spec: NexmarkSpec) -> Answer:
    """Return the persons who are among the sellers of the window in which they registered."""
    persons, auctions = _numbers(spec, PERSON), _numbers(spec, AUCTION)
    width = FIRST_ID + int(last_person(np.array(spec.events))) + 1_000
    cells, counts = np.unique(time_ms(spec, auctions) // SIZE_MS * width + seller(spec, auctions), return_counts=True)
    wanted = time_ms(spec, persons) // SIZE_MS * width + FIRST_ID + last_person(persons)
    nearest = np.minimum(np.searchsorted(cells, wanted), len(cells) - 1)
    matches = nearest[cells[nearest] == wanted]
    return Answer((cells[matches] // width + 1) * SIZE_MS, cells[matches] % width, counts[matches])


def q11(spec: NexmarkSpec) -> Answer:
    """Sort bids by bidder and time. A session ends if the next bid is further away than the gap."""
    n = _numbers(spec, BID)
    who, times = bidder(spec, n), time_ms(spec, n)
    order = np.lexsort((times, who))
    who, times = who[order], times[order]
    first = np.flatnonzero(np.r_[True, (np.diff(who) != 0) | (np.diff(times) > GAP_MS)])
    bids = np.diff(np.r_[first, len(who)])
    return Answer(times[first + bids - 1] + GAP_MS, who[first], bids)


ANSWERS: dict[str, Callable[[NexmarkSpec], Answer]] = {"q5": q5, "q7": q7, "q8": q8, "q11": q11}
