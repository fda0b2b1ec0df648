"""What the row operator keeps: keys and their windows, in pages that are read and written as a whole.

Three spaces of the store:

========  ================  ===================================================================================================
space     key               value
========  ================  ===================================================================================================
meta      0                 watermark, clock, counters; the index of pages: for each when its next timer is due, so that no page
                            is read to find out that nothing is
pages     the page's        all keys of the page: their windows with accumulators or references to elements, triggers' and
          number            functions' states, timers
elements  a running number  elements that came in one batch for one page: written once, referred to by windows, dropped when no
                            window refers to them
========  ================  ===================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from panestream.engine.operators.row.codec import Codec
from panestream.engine.operators.row.columns import ColumnReader, ColumnWriter
from panestream.engine.operators.row.element_chunks import Arrivals, SegmentCodec
from panestream.engine.operators.row.index import Entry, PageIndex
from panestream.engine.operators.row.keys import canonical_key, stable_hash
from panestream.engine.operators.row.pages import PageCodec
from panestream.engine.operators.row.row_plan import RowPlan
from panestream.engine.operators.row.timers import NEVER, TimerQueue
from panestream.engine.operators.row.window_states import EMPTY, ElementList, KeyState, Page, WindowState
from panestream.engine.storage.state import State
from panestream.errors import PanestreamError, StateDamagedError
from panestream.windowing.time import MIN_TIMESTAMP

META, PAGES, ELEMENTS = "meta", "pages", "elements"
MANY_SEGMENTS = 32
"""With more pieces than this in one page, the smaller ones are put together."""


class RowStore:
    """Keys, windows and timers of one key group: reads pages when they are needed, writes those that were touched.

    Attributes:
        touched: the keys that were used since the last commit. The hot path looks here first, and calls :meth:`touch` when it
            finds nothing.
        event_queue, processing_queue: the timers of all pages that were read.
        meta: counters and times that the operator keeps (JSON values).
    """

    def __init__(self, plan: RowPlan, state: State, resume: Callable[[WindowState], bool]) -> None:
        """Reads the meta record, nothing else.

        Args:
            plan: what the operator does.
            state: of the key group.
            resume: sets the cleanup time of a window that was read; says whether the window is still there then.
        """
        self._state = state
        self._resume = resume
        self._pickled = plan.pickled_state
        self._keeps_elements = plan.keeps_elements
        codec = Codec(plan.element_type, plan.pickled_state)
        self._page_codec = PageCodec(codec, plan.keeps_elements, plan.assigner.is_event_time)
        self._segment_codec = SegmentCodec(plan.element_type, codec, plan.evictor is not None)
        self._pages: dict[int, Page] = {}
        self._index = PageIndex(plan.pages)
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
        page = self._page(*self._index.claim(stable_hash(key, self._pickled)))
        page.dirty = True
        found = page.keys.get(key)
        if found is None:
            found = page.keys[key] = KeyState(key, page)
        self.touched[key] = found
        return found

    def new_slot(self, owner: KeyState, start: int | None, end: int | None) -> WindowState:
        """A window that is not among those of its key yet."""
        self._orders += 1
        return WindowState(owner, start, end, self._orders)

    def elements(self, page: Page, contents: ElementList) -> list[Any]:
        """All elements of a list, in order, in a new list."""
        if not contents.chunks:
            return contents.tail.copy()
        found: list[Any] = []
        for chunk in contents.chunks:
            found.extend(chunk if isinstance(chunk, list) else self._piece(page, chunk))
        found.extend(contents.tail)
        return found

    def arrived(self, elements: Sequence[Any], columns: Sequence[pa.Array]) -> None:
        """Elements have come that were made of these columns: those that have to rest are written from them."""
        if self._keeps_elements:
            self._segment_codec.arrivals.add(elements, columns)

    def load_due(self, event: int = MIN_TIMESTAMP - 1, processing: int = MIN_TIMESTAMP - 1) -> None:
        """Reads the pages that have a timer up to and including these times."""
        for number in self._index.due(event, processing):
            self._page(number, self._index.entries[number].modulus)

    def first_processing_timer(self) -> int:
        """At or before the next processing-time timer of any page; NEVER where there is none. Reads nothing."""
        unread = (entry.processing for number, entry in self._index.entries.items() if number not in self._pages)
        return min(self.processing_queue.first(), *unread, NEVER)

    def all_slots(self) -> Iterator[WindowState]:
        """Every window of every key: reads everything, for tests and harnesses."""
        for page in self._all_pages():
            yield from page.slots()

    def all_keys(self) -> Iterator[KeyState]:
        """Every key: reads everything, for tests and harnesses."""
        for page in self._all_pages():
            yield from page.keys.values()

    def _all_pages(self) -> list[Page]:
        for number, entry in self._index.entries.items():
            self._page(number, entry.modulus)
        return [self._pages[number] for number in sorted(self._pages)]

    # ---------------------------------------------------------------- reading

    def _page(self, number: int, modulus: int) -> Page:
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = Page(number, modulus)
            if number in self._index.entries:
                self._read_page(page)
        return page

    def _read_page(self, page: Page) -> None:
        with self._reading(PAGES, page.number) as data:
            self._page_codec.decode(page, data, self.new_slot)
        for slot in list(page.slots()):
            if not self._resume(slot):
                page.dirty = True
                continue
            self.event_queue.load(slot.event_timers)
            if slot.processing_timers is not None:
                self.processing_queue.load(slot.processing_timers)

    def _piece(self, page: Page, piece: tuple[int, int, int]) -> list[Any]:
        segment, start, count = piece
        elements = page.loaded.get(segment)
        if elements is None:
            with self._reading(ELEMENTS, segment) as data:
                elements = page.loaded[segment] = self._segment_codec.decode(data)
        return elements[start : start + count]

    @contextmanager
    def _reading(self, space: str, key: int) -> Iterator[bytes]:
        """A value to take apart. What goes wrong there must not pass for an error of the users' functions that asked for it."""
        data = self._state.get(space, key)
        if data is None:
            raise StateDamagedError(f"value {key} of {space!r} is referred to, but missing from the state", None, space, key)
        try:
            yield data
        except PanestreamError:
            raise
        except Exception as error:
            what = f"value {key} of {space!r} in the state cannot be taken apart ({type(error).__name__}: {error})"
            raise StateDamagedError(what, None, space, key) from error

    def _read_meta(self, data: bytes) -> None:
        reader = ColumnReader(data)
        self.meta = reader.header["meta"]
        self._next_segment = reader.header["next_segment"]
        self._index.read(reader, reader.header["pages"])

    # ---------------------------------------------------------------- writing

    def commit(self, keep_bare: bool) -> None:
        """Writes the pages that were touched, and the meta record where it changed, or anything else was written.

        Args:
            keep_bare: keep windows of which nothing is left but that they exist (purged sessions).
        """
        dirty = [page for _, page in sorted(self._pages.items()) if page.dirty]
        for page in dirty:
            self._forget(page, keep_bare)
            for part in self._parts(page):
                self._write_page(part)
        self.touched.clear()
        self._index.grow()
        self._write_meta(anyway=bool(dirty))

    def release(self) -> None:
        """Lets go of everything in memory. The store must not be used any more.

        Windows, keys and pages know each other: as garbage they would wait for Python's search for cycles, which takes far longer
        than this.
        """
        for page in self._pages.values():
            for owner in page.keys.values():
                for slot in owner.slots.values():
                    slot.event_timers.owner = None
                    if slot.processing_timers is not None:
                        slot.processing_timers.owner = None
                owner.slots.clear()
                owner.latest = None
            page.keys.clear()
        self._pages.clear()
        self.touched.clear()
        self.event_queue, self.processing_queue = TimerQueue(), TimerQueue()
        self._segment_codec.arrivals = Arrivals()

    @staticmethod
    def _forget(page: Page, keep_bare: bool) -> None:
        """Drops the keys of which nothing is left."""
        for key, owner in list(page.keys.items()):
            if not keep_bare:
                for bounds in [bounds for bounds, slot in owner.slots.items() if slot.contents is EMPTY and slot.is_bare()]:
                    owner.slots.pop(bounds).alive = False
            if not owner.slots and not owner.cells:
                owner.latest = None  # no cycle
                del page.keys[key]

    def _parts(self, page: Page) -> list[Page]:
        """The page; or, where there are more pages now than when it was made, those that take its place."""
        if page.modulus == self._index.modulus:
            return [page]
        for segment in sorted(page.segments):
            self._piece(page, (segment, 0, 0))
        parts = {page.number: Page(page.number, self._index.modulus)}
        for key, owner in page.keys.items():
            number = stable_hash(key, self._pickled) % self._index.modulus
            part = parts.get(number) or parts.setdefault(number, Page(number, self._index.modulus))
            part.keys[key] = owner
            owner.page = part
            for slot in owner.slots.values() if self._keeps_elements else ():
                if slot.contents is not EMPTY:
                    slot.contents = ElementList(self.elements(page, slot.contents))
        for segment in sorted(page.segments):
            self._state.remove(ELEMENTS, segment)
        self._pages.update(parts)
        return [parts[number] for number in sorted(parts)]

    def _write_page(self, page: Page) -> None:
        page.dirty = False
        if self._keeps_elements:
            self._write_elements(page)
        if not page.keys:
            del self._pages[page.number]
            if self._index.remove(page.number):
                self._state.remove(PAGES, page.number)
            return
        data = self._page_codec.encode(page)
        self._state.put(PAGES, page.number, data)
        event = min((slot.event_timers.following() for slot in page.slots()), default=NEVER)
        clocks = (slot.processing_timers.following() for slot in page.slots() if slot.processing_timers is not None)
        self._index.put(page.number, Entry(page.modulus, event, min(clocks, default=NEVER), len(data), len(page.keys)))

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
            self._state.put(ELEMENTS, self._next_segment, self._segment_codec.encode(fresh))
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

    def _write_meta(self, *, anyway: bool) -> None:
        """Writes the meta record. Sealed, it says when each page was written, so pages that look alike do not do without it."""
        writer = ColumnWriter()
        self._index.write(writer)
        data = writer.finish({"meta": self.meta, "pages": self._index.modulus, "next_segment": self._next_segment})
        if anyway or data != self._written:
            self._state.put(META, 0, data)
            self._written = data
