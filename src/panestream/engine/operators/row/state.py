"""What the row operator keeps: keys and their windows, in pages that are read and written as a whole.

Three spaces of the store:

========  =========================  ==========================================================================================
space     key                        value
========  =========================  ==========================================================================================
meta      0                          watermark, clock, counters; for every page when its next timer is due, so that no page is
                                     read to find out that nothing is
pages     ``stable_hash(key) %``     all keys of the page: their windows with accumulators or references to elements, triggers'
          ``pages``                  and functions' states, timers
elements  a running number           elements that came in one batch for one page: written once, referred to by windows,
                                     dropped when no window refers to them
========  =========================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.columns import ColumnReader, ColumnWriter, join_parts, split_parts
from panestream.engine.operators.row.keys import canonical_key, stable_hash
from panestream.engine.operators.row.plan import RowPlan
from panestream.engine.operators.row.timers import NEVER, TimerQueue, WindowTimers
from panestream.engine.state import State
from panestream.errors import PlanMismatchError
from panestream.windowing.evictors import TimestampedValue
from panestream.windowing.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from panestream.windowing.windows import GlobalWindow, TimeWindow, Window

EMPTY: Any = type("Empty", (), {"__repr__": lambda _: "EMPTY"})()
"""The contents of a window that has none. (None is a value like any other.)"""

_GLOBAL = GlobalWindow()
META, PAGES, ELEMENTS = "meta", "pages", "elements"
MANY_SEGMENTS = 32
"""With more pieces than this in one page, the smaller ones are put together."""

Bounds = tuple[int, int] | None
"""How a window is found among the windows of its key: start and end; None for the global window."""


class ElementList:
    """The elements of one window: references to what rests in the store, and what came since.

    Attributes:
        chunks: in order: ``(segment, start, count)``, or a list of elements (after a merge).
        tail: the newest elements; later ones are appended here.
    """

    __slots__ = ("chunks", "tail")

    def __init__(self, tail: list[Any]) -> None:
        self.chunks: list[tuple[int, int, int] | list[Any]] = []
        self.tail = tail

    def __len__(self) -> int:
        return len(self.tail) + sum(len(chunk) if isinstance(chunk, list) else chunk[2] for chunk in self.chunks)

    def join(self, other: ElementList) -> None:
        """Appends the elements of another list, which is not used afterwards. Nothing is read, nothing copied."""
        if self.tail:
            self.chunks.append(self.tail)
        self.chunks.extend(other.chunks)
        self.tail = other.tail

    def drop_first(self, count: int) -> None:
        """Forgets the ``count`` oldest elements without reading them."""
        while count and self.chunks:
            chunk = self.chunks[0]
            if isinstance(chunk, list):
                self.chunks[0], gone = chunk[count:], min(count, len(chunk))
                left = len(chunk) - gone
            else:
                segment, start, size = chunk
                gone = min(count, size)
                left = size - gone
                self.chunks[0] = (segment, start + gone, left)
            count -= gone
            if not left:
                del self.chunks[0]
        if count:
            self.tail = self.tail[count:]


class Slot:
    """What is kept of one window of one key.

    Attributes:
        start, end: the window's bounds; a session's change while it grows. None for the global window.
        max_timestamp, cleanup: its last instant, and when it goes (NEVER: it does not).
        contents: an accumulator, an :class:`ElementList`, or EMPTY.
        trigger_cells, window_cells: the states of the trigger, and of the window function, by name.
        event_timers, processing_timers: its timers; the second only where one was ever registered.
        alive: False once the window is gone: what the queues still hold of it means nothing.
    """

    __slots__ = (
        "_window",
        "alive",
        "contents",
        "end",
        "event_timers",
        "max_timestamp",
        "order",
        "owner",
        "processing_timers",
        "start",
        "trigger_cells",
        "window_cells",
    )

    def __init__(self, owner: KeyState, start: int | None, end: int | None, order: int) -> None:
        self.owner = owner
        self.start = start
        self.end = end
        self.max_timestamp = MAX_TIMESTAMP if end is None else end - 1
        self.order = order
        self.contents = EMPTY
        self.trigger_cells: dict[str, Any] = {}
        self.window_cells: dict[str, Any] | None = None
        self.event_timers = WindowTimers(self, order)
        self.processing_timers: WindowTimers | None = None
        self.alive = True
        self._window: Window | None = None

    @property
    def bounds(self) -> Bounds:
        """How the window is found among those of its key."""
        return None if self.start is None or self.end is None else (self.start, self.end)

    @property
    def window(self) -> Window:
        """The window, as users see it."""
        if self._window is None:
            self._window = _GLOBAL if self.start is None or self.end is None else TimeWindow(self.start, self.end)
        return self._window

    def move(self, start: int, end: int) -> None:
        """The window has other bounds now. Its timers are the caller's business."""
        self.start, self.end, self.max_timestamp, self._window = start, end, end - 1, None

    def clock_timers(self) -> WindowTimers:
        """The processing-time timers."""
        if self.processing_timers is None:
            self.processing_timers = WindowTimers(self, self.order)
        return self.processing_timers

    def is_bare(self) -> bool:
        """Whether nothing would be lost if the window were forgotten."""
        timers = self.processing_timers
        return (
            self.contents is EMPTY
            and not self.trigger_cells
            and not self.window_cells
            and self.event_timers.following() == NEVER
            and (timers is None or timers.following() == NEVER)
        )


class KeyState:
    """What is kept of one key: its windows by bounds, in the order of their coming, and the per-key state of the function.

    ``latest`` is the session with the largest start, where the session loop knows it: most elements belong there.
    """

    __slots__ = ("cells", "key", "latest", "page", "slots")

    def __init__(self, key: Any, page: Page) -> None:
        self.key = key
        self.page = page
        self.slots: dict[Bounds, Slot] = {}
        self.latest: Slot | None = None
        self.cells: dict[str, Any] = {}


class Page:
    """The keys that are read and written together.

    Attributes:
        segments: the size of every segment of elements that belongs to the page.
        loaded: those that were read.
        dirty: whether anything changed since the page was read or written.
    """

    __slots__ = ("dirty", "keys", "loaded", "number", "segments")

    def __init__(self, number: int) -> None:
        self.number = number
        self.keys: dict[Any, KeyState] = {}
        self.segments: dict[int, int] = {}
        self.loaded: dict[int, list[Any]] = {}
        self.dirty = False

    def slots(self) -> Iterator[Slot]:
        """All windows of all keys."""
        for key in self.keys.values():
            yield from key.slots.values()


class RowStore:
    """Keys, windows and timers of one key group: reads pages when they are needed, writes those that were touched.

    Attributes:
        touched: the keys that were used since the last commit. The hot path looks here first, and calls :meth:`touch` when it
            finds nothing.
        event_queue, processing_queue: the timers of all pages that were read.
        meta: counters and times that the operator keeps (JSON values).
    """

    def __init__(self, plan: RowPlan, state: State, open_timers: Callable[[Slot], None]) -> None:
        """Reads the meta record, nothing else.

        Args:
            plan: what the operator does.
            state: of the key group.
            open_timers: sets the cleanup times of a window that was read.
        """
        self._plan = plan
        self._state = state
        self._codec = Codec(plan.element_type, plan.pickled_state)
        self._open_timers = open_timers
        self._pages: dict[int, Page] = {}
        self._index: dict[int, tuple[int, int]] = {}
        self._next_segment = 0
        self._orders = 0
        self._written: bytes | None = state.get(META, 0)
        self.touched: dict[Any, KeyState] = {}
        self.event_queue = TimerQueue()
        self.processing_queue = TimerQueue()
        self.meta: dict[str, Any] = {}
        if self._written is not None:
            self._read_meta(self._written)

    # ---------------------------------------------------------------- keys and windows

    def touch(self, key: Any) -> KeyState:
        """The state of a key, which will be written at the next commit; made where there is none."""
        key = canonical_key(key)
        found = self.touched.get(key)
        if found is not None:
            return found
        page = self._page(stable_hash(key, self._plan.pickled_state) % self._plan.pages)
        page.dirty = True
        found = page.keys.get(key)
        if found is None:
            found = page.keys[key] = KeyState(key, page)
        self.touched[key] = found
        return found

    def new_slot(self, owner: KeyState, start: int | None, end: int | None) -> Slot:
        """A window that is not among those of its key yet."""
        self._orders += 1
        return Slot(owner, start, end, self._orders)

    def elements(self, page: Page, contents: ElementList) -> list[Any]:
        """All elements of a list, in order, in a new list."""
        if not contents.chunks:
            return contents.tail.copy()
        found: list[Any] = []
        for chunk in contents.chunks:
            found.extend(chunk if isinstance(chunk, list) else self._piece(page, chunk))
        found.extend(contents.tail)
        return found

    def load_due(self, event: int = MIN_TIMESTAMP - 1, processing: int = MIN_TIMESTAMP - 1) -> None:
        """Reads the pages that have a timer up to and including these times."""
        for number, (at, clock) in self._index.items():
            if (at <= event or clock <= processing) and number not in self._pages:
                self._page(number)

    def first_processing_timer(self) -> int:
        """At or before the next processing-time timer of any page; NEVER where there is none. Reads nothing."""
        unread = [clock for number, (_, clock) in self._index.items() if number not in self._pages]
        return min(unread, default=NEVER) if not self._pages else min(self.processing_queue.first(), *unread, NEVER)

    def all_slots(self) -> Iterator[Slot]:
        """Every window of every key: reads everything, for tests and harnesses."""
        for page in self._all_pages():
            yield from page.slots()

    def all_keys(self) -> Iterator[KeyState]:
        """Every key: reads everything, for tests and harnesses."""
        for page in self._all_pages():
            yield from page.keys.values()

    def _all_pages(self) -> list[Page]:
        for number in self._index:
            self._page(number)
        return [self._pages[number] for number in sorted(self._pages)]

    # ---------------------------------------------------------------- reading

    def _page(self, number: int) -> Page:
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = Page(number)
            if number in self._index:
                data = self._state.get(PAGES, number)
                if data is None:
                    raise PlanMismatchError(f"page {number} is in the index of the state but not in the state: it was damaged")
                self._read_page(page, data)
        return page

    def _read_page(self, page: Page, data: bytes) -> None:
        windows, keys = split_parts(data)
        reader = ColumnReader(windows, self._codec)
        page.segments = {int(segment): size for segment, size in reader.header["segments"]}
        names = {prefix: reader.value_names(prefix) for prefix in ("trigger:", "window:")}
        cells = {name: reader.values(name) for found in names.values() for name in found}
        elements = reader.integer_lists("elements") if self._plan.keeps_elements else None
        contents = reader.values("contents") if elements is None else None
        filled = reader.booleans("filled")
        event_timers, processing_timers = reader.integer_lists("event_timers"), reader.integer_lists("processing_timers")
        starts, ends = reader.integers("start"), reader.integers("end")
        for row, key in enumerate(reader.values("key")):
            owner = page.keys.get(key)
            if owner is None:
                key = canonical_key(key)  # noqa: PLW2901 - a NaN that was read is not the one that is looked for
                owner = page.keys.get(key) or page.keys.setdefault(key, KeyState(key, page))
            slot = self.new_slot(owner, starts[row], ends[row])
            owner.slots[slot.bounds] = slot
            if filled[row]:
                slot.contents = contents[row] if contents is not None else _list_of(elements[row] if elements else [])
            slot.trigger_cells = {name[8:]: cells[name][row] for name in names["trigger:"] if cells[name][row] is not None}
            slot.window_cells = {name[7:]: cells[name][row] for name in names["window:"] if cells[name][row] is not None} or None
            slot.event_timers.times.update(event_timers[row])
            if processing_timers[row]:
                slot.clock_timers().times.update(processing_timers[row])
            self._open_timers(slot)
            self.event_queue.load(slot.event_timers)
            if slot.processing_timers is not None:
                self.processing_queue.load(slot.processing_timers)
        if keys:
            self._read_keys(page, keys)

    def _read_keys(self, page: Page, data: bytes) -> None:
        reader = ColumnReader(data, self._codec)
        columns = {name[7:]: reader.values(name) for name in reader.value_names("global:")}
        for row, found in enumerate(reader.values("key")):
            key = canonical_key(found)
            owner = page.keys.get(key) or page.keys.setdefault(key, KeyState(key, page))
            owner.cells = {name: values[row] for name, values in columns.items() if values[row] is not None}

    def _piece(self, page: Page, piece: tuple[int, int, int]) -> list[Any]:
        segment, start, count = piece
        elements = page.loaded.get(segment)
        if elements is None:
            data = self._state.get(ELEMENTS, segment)
            if data is None:
                raise PlanMismatchError(f"elements {segment} are referred to by page {page.number} but not in the state")
            elements = page.loaded[segment] = self._read_elements(data)
        return elements[start : start + count]

    def _read_elements(self, data: bytes) -> list[Any]:
        values, references = split_parts(data)
        reader = ColumnReader(values, self._codec)
        elements = reader.values("value")
        if self._plan.evictor is not None:
            elements = list(map(TimestampedValue, elements, reader.integers("timestamp")))
        if references:
            elements = [elements[at] for at in ColumnReader(references).integers("at")]
        return elements

    def _read_meta(self, data: bytes) -> None:
        reader = ColumnReader(data)
        self.meta = reader.header["meta"]
        pages = reader.header["pages"]
        if pages != self._plan.pages:
            raise PlanMismatchError(
                f"the state was born with {pages} pages a key group, the plan says {self._plan.pages}: "
                f"give the plan pages={pages}, or start on a new checkpoint"
            )
        self._next_segment = reader.header["next_segment"]
        columns = (reader.integers("page"), reader.integers("event"), reader.integers("processing"))
        self._index = {
            page: (NEVER if event is None else event, NEVER if processing is None else processing)
            for page, event, processing in zip(*columns, strict=True)
        }

    # ---------------------------------------------------------------- writing

    def commit(self, keep_bare: bool) -> None:
        """Writes the pages that were touched, and the meta record where it changed.

        Args:
            keep_bare: keep windows of which nothing is left but that they exist (purged sessions).
        """
        for number in sorted(self._pages):
            page = self._pages[number]
            if page.dirty:
                self._write_page(page, keep_bare)
                page.dirty = False
        self.touched.clear()
        self._write_meta()

    def _write_page(self, page: Page, keep_bare: bool) -> None:
        for key in [key for key, owner in page.keys.items() if self._is_forgotten(owner, keep_bare)]:
            del page.keys[key]
        if self._plan.keeps_elements:
            self._write_elements(page)
        if page.keys:
            self._state.put(PAGES, page.number, join_parts([self._windows_of(page), self._cells_of(page)]))
            due = [self._due_of(slot) for slot in page.slots()]
            self._index[page.number] = (
                min((at for at, _ in due), default=NEVER),
                min((clock for _, clock in due), default=NEVER),
            )
        elif self._index.pop(page.number, None) is not None:
            self._state.remove(PAGES, page.number)

    @staticmethod
    def _is_forgotten(owner: KeyState, keep_bare: bool) -> bool:
        if not keep_bare:
            for bounds in [bounds for bounds, slot in owner.slots.items() if slot.is_bare()]:
                owner.slots.pop(bounds).alive = False
        return not owner.slots and not owner.cells

    @staticmethod
    def _due_of(slot: Slot) -> tuple[int, int]:
        return slot.event_timers.following(), NEVER if slot.processing_timers is None else slot.processing_timers.following()

    def _windows_of(self, page: Page) -> bytes:
        slots = list(page.slots())
        writer = ColumnWriter(self._codec)
        writer.values("key", [slot.owner.key for slot in slots])
        writer.integers("start", [slot.start for slot in slots])
        writer.integers("end", [slot.end for slot in slots])
        writer.booleans("filled", [slot.contents is not EMPTY for slot in slots])
        if self._plan.keeps_elements:
            writer.integer_lists("elements", [_flat(slot.contents) for slot in slots])
        else:
            writer.values("contents", [None if slot.contents is EMPTY else slot.contents for slot in slots])
        writer.integer_lists("event_timers", [sorted(slot.event_timers.times) for slot in slots])
        clocks = [() if slot.processing_timers is None else sorted(slot.processing_timers.times) for slot in slots]
        writer.integer_lists("processing_timers", clocks)
        _write_cells(writer, "trigger:", [slot.trigger_cells for slot in slots])
        _write_cells(writer, "window:", [slot.window_cells or {} for slot in slots])
        return writer.finish({"segments": sorted(page.segments.items())})

    def _cells_of(self, page: Page) -> bytes:
        owners = [owner for owner in page.keys.values() if owner.cells]
        if not owners:
            return b""
        writer = ColumnWriter(self._codec)
        writer.values("key", [owner.key for owner in owners])
        _write_cells(writer, "global:", [owner.cells for owner in owners])
        return writer.finish()

    def _write_elements(self, page: Page) -> None:
        """Puts new elements into one segment, drops the segments that nothing refers to, and rewrites small ones."""
        lists = [slot.contents for slot in page.slots() if slot.contents is not EMPTY]
        live: dict[int, int] = {}
        for contents in lists:
            for chunk in contents.chunks:
                if not isinstance(chunk, list):
                    live[chunk[0]] = live.get(chunk[0], 0) + chunk[2]
        rewritten = self._worth_rewriting(page, live)
        fresh: list[Any] = []
        for contents in lists:
            self._settle(page, contents, rewritten, fresh)
        kept = {segment: size for segment, size in page.segments.items() if segment in live and segment not in rewritten}
        for segment in sorted(set(page.segments) - set(kept)):
            self._state.remove(ELEMENTS, segment)
            page.loaded.pop(segment, None)
        if fresh:
            kept[self._next_segment] = len(fresh)
            self._state.put(ELEMENTS, self._next_segment, self._bytes_of_elements(fresh))
            page.loaded[self._next_segment] = fresh
            self._next_segment += 1
        page.segments = kept

    @staticmethod
    def _worth_rewriting(page: Page, live: dict[int, int]) -> set[int]:
        mostly_dead = {segment for segment, count in live.items() if count * 4 < page.segments[segment]}
        if len(live) <= MANY_SEGMENTS:
            return mostly_dead
        # The largest stay: an element is rewritten a logarithmic number of times, however long its window lives.
        return mostly_dead | set(sorted(live, key=lambda segment: (live[segment], segment))[: MANY_SEGMENTS * 3 // 4])

    def _settle(self, page: Page, contents: ElementList, rewritten: set[int], fresh: list[Any]) -> None:
        """Makes references of everything in a list that is not at rest yet, or must move."""
        chunks: list[tuple[int, int, int] | list[Any]] = []
        for chunk in [*contents.chunks, contents.tail]:
            if not isinstance(chunk, list) and chunk[0] not in rewritten:
                chunks.append(chunk)
                continue
            moved = chunk if isinstance(chunk, list) else self._piece(page, chunk)
            if not moved:
                continue
            start = len(fresh)
            fresh.extend(moved)
            last = chunks[-1] if chunks else None
            if isinstance(last, tuple) and last[0] == self._next_segment and last[1] + last[2] == start:
                chunks[-1] = (last[0], last[1], last[2] + len(moved))
            else:
                chunks.append((self._next_segment, start, len(moved)))
        contents.chunks, contents.tail = chunks, []

    def _bytes_of_elements(self, elements: list[Any]) -> bytes:
        places: dict[int, int] = {}
        distinct = elements
        references = b""
        if len({id(element) for element in elements}) < len(elements):
            # Overlapping windows hold the same element: it is stored once.
            distinct = []
            for element in elements:
                if places.setdefault(id(element), len(distinct)) == len(distinct):
                    distinct.append(element)
            writer = ColumnWriter()
            writer.integers("at", [places[id(element)] for element in elements])
            references = writer.finish()
        writer = ColumnWriter(self._codec)
        if self._plan.evictor is not None:
            writer.values("value", [element.value for element in distinct])
            writer.integers("timestamp", [element.timestamp for element in distinct])
        else:
            writer.values("value", distinct)
        return join_parts([writer.finish(), references])

    def _write_meta(self) -> None:
        numbers = sorted(self._index)
        writer = ColumnWriter()
        writer.integers("page", numbers)
        for at, name in enumerate(("event", "processing")):
            writer.integers(name, [None if self._index[n][at] == NEVER else self._index[n][at] for n in numbers])
        data = writer.finish({"meta": self.meta, "pages": self._plan.pages, "next_segment": self._next_segment})
        if data != self._written:
            self._state.put(META, 0, data)
            self._written = data


def _list_of(numbers: list[int]) -> ElementList:
    found = ElementList([])
    found.chunks.extend((numbers[at], numbers[at + 1], numbers[at + 2]) for at in range(0, len(numbers), 3))
    return found


def _flat(contents: Any) -> list[int]:
    return [] if contents is EMPTY else [number for chunk in contents.chunks for number in chunk]


def _write_cells(writer: ColumnWriter, prefix: str, cells: list[dict[str, Any]]) -> None:
    for name in sorted({name for found in cells for name in found}):
        writer.values(prefix + name, [found.get(name) for found in cells])
