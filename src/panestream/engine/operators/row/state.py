"""State of the row operator: keys and their windows, in pages that are read and written as a whole.

Three spaces of the store:

========  ================  ===================================================================================================
space     key               value
========  ================  ===================================================================================================
meta      0                 watermark, clock, counters; the index of pages with the next timer of each, so that no page is read
                            just to see that nothing is due
pages     the page's        all keys of the page: their windows with accumulators or references to elements, triggers' and
          number            functions' states, timers
elements  a running number  elements that arrived in one batch for one page: written once, referenced by windows, deleted when
                            no window refers to them
========  ================  ===================================================================================================

Objects in memory reference each other in both directions. Python's cycle collector takes far longer to free them than cutting the
references explicitly::

    RowStore ---> KeyPage <------> KeyState <---------------> WindowState <----------> WindowTimers <--- TimerQueue

    forward       .pages    .keys            .window_states                .event_timers
                                             .latest                       .processing_timers
    back                    .page            .owner                        .owner
    cut by                  del keys[k]      del window_states[bounds],    free_timers()
                                             latest = None

The invariant: **a released object has no path back to itself.** A removed window loses the reference from its timers
(``WindowState.free_timers``) and its place in ``window_states``. A removed key loses ``latest`` and its place in ``keys``.
:meth:`RowStore.release` does both for everything. Cut any new backward reference in the same places: ``RowOperator._retire``,
``RowStore._forget`` and ``RowStore.release``. ``test_state.py`` counts the objects left with the collector off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import index
from typing import Any, Protocol

import pyarrow as pa

from panestream.engine.operators.row.codec import Codec, canonical_key, stable_hash
from panestream.engine.operators.row.contents import (
    EMPTY,
    NEVER,
    PROGRESS,
    ChunkSlice,
    ElementList,
    KeyPage,
    KeyState,
    RowPlan,
    TimerQueue,
    WindowState,
)
from panestream.engine.operators.row.pages import (
    ColumnReader,
    ColumnWriter,
    ElementArrivals,
    ElementChunkCodec,
    Entry,
    PageCodec,
    PageIndex,
)
from panestream.engine.storage.state import State, window_too_large
from panestream.errors import InvalidPlanError, PanestreamError, StateDamagedError
from panestream.windowing.functions import no_state
from panestream.windowing.state import KeyedStateStore, ReducingStateDescriptor
from panestream.windowing.time import MIN_TIMESTAMP
from panestream.windowing.windows import Window

META, PAGES, ELEMENTS = "meta", "pages", "elements"
_WINDOWS, _CHUNKED, _CHUNK_BYTES = "windows", "chunked elements", "chunk bytes"
"""Counters of the meta record for metrics: windows, elements in chunks, and the bytes of these."""
MANY_CHUNKS = 32
"""If a page has more chunks than this, the smaller ones are combined."""
_LARGE_BYTES = 4 << 20
"""Chunks of at least this size are not combined: combining saves calls, whose cost is small compared with these bytes."""


class RowStore:
    """Keys, windows and timers of one key group. It reads pages on demand and writes those that were used.

    Attributes:
        used_keys: the keys used since the last commit. The hot path looks here before it calls :meth:`get_or_create`.
        event_queue, processing_queue: the timers of all pages that were read.
        meta: counters and times of the operator (JSON values).
        most_bytes: the maximum bytes of elements to read for a window, or 0 if no window can exceed it.
        failure: the error of the last failed read of state, so that it is not blamed on the user function that caused the read.
    """

    def __init__(self, plan: RowPlan, state: State, resume: Callable[[WindowState], bool]) -> None:
        """Read only the meta record.

        ``resume`` sets the cleanup time of a window that was read, and returns whether the window still exists.
        """
        self._state = state
        self._resume = resume
        self.most_bytes = 0
        self._pickled = plan.window.pickled_state
        self._keeps_elements = plan.keeps_elements
        self._keys_have_watermarks = plan.key_watermarks is not None
        codec = Codec(plan.element_type, plan.window.pickled_state)
        self._page_codec = PageCodec(codec, plan.keeps_elements, plan.window.assigner.is_event_time)
        self._chunk_codec = ElementChunkCodec(plan.element_type, codec, plan.window.evictor is not None)
        self._pages: dict[int, KeyPage] = {}
        self._index = PageIndex(plan.pages)
        self._next_chunk = 0
        self._orders = 0
        self._written: bytes | None = state.get(META, 0)
        self.used_keys: dict[Any, KeyState] = {}
        self.event_queue = TimerQueue()
        self.processing_queue = TimerQueue()
        self.meta: dict[str, Any] = {}
        self.failure: Exception | None = None
        if self._written is not None:
            self._read_meta(self._written)
        else:
            self.meta.update(dict.fromkeys((_WINDOWS, _CHUNKED, _CHUNK_BYTES), 0))

    # ---------------------------------------------------------------- keys and windows

    def get_or_create(self, key: Any) -> KeyState:
        """Return the state of a key, new if necessary, and mark it for the next commit."""
        key = canonical_key(key)
        owner = self.used_keys.get(key)
        if owner is not None:
            return owner
        page = self._page(*self._index.claim(stable_hash(key, self._pickled)))
        page.dirty = True
        owner = page.keys.get(key)
        if owner is None:
            owner = page.keys[key] = KeyState(key, page)
        self.used_keys[key] = owner
        return owner

    def new_window_state(self, owner: KeyState, start: int | None, end: int | None) -> WindowState:
        """Return a new window, which the caller adds to its key."""
        self._orders += 1
        return WindowState(owner, start, end, self._orders)

    def elements(self, page: KeyPage, contents: ElementList) -> list[Any]:
        """Return all elements of a list, in order, in a new list."""
        if not contents.parts:
            return contents.tail.copy()
        elements: list[Any] = []
        for part in contents.parts:
            elements.extend(part if isinstance(part, list) else self._elements_of(page, part))
        elements.extend(contents.tail)
        return elements

    def arrived(self, elements: Sequence[Any], columns: Sequence[pa.Array]) -> None:
        """Record the input columns of new elements, so that stored elements are written from these."""
        if self._keeps_elements:
            self._chunk_codec.arrivals.add(elements, columns)

    def load_due(self, event: int = MIN_TIMESTAMP - 1, processing: int = MIN_TIMESTAMP - 1) -> None:
        """Read the pages that have a timer at or before these times."""
        for number in self._index.due(event, processing):
            self._page(number, self._index.entries[number].modulus)

    def first_processing_timer(self) -> int:
        """Return a lower bound of the next processing-time timer, or NEVER. Reads nothing."""
        unread = (entry.processing for number, entry in self._index.entries.items() if number not in self._pages)
        return min(self.processing_queue.first(), *unread, NEVER)

    def all_window_states(self) -> Iterator[WindowState]:
        """Yield every window of every key. Reads everything, for tests and harnesses."""
        for page in self._all_pages():
            yield from page.window_states()

    def all_keys(self) -> Iterator[KeyState]:
        """Yield every key. Reads everything, for tests and harnesses."""
        for page in self._all_pages():
            yield from page.keys.values()

    def loaded_keys(self) -> Iterator[KeyState]:
        """Yield the keys of the pages in memory."""
        for _, page in sorted(self._pages.items()):
            yield from page.keys.values()

    @property
    def window_count(self) -> int | None:
        """The number of windows in stored pages, or None if the state is older than this counter. Reads nothing."""
        return self.meta.get(_WINDOWS)

    def elements_of(self, window_state: WindowState) -> list[Any]:
        """Return a window's elements, or raise MemoryLimitError if they exceed ``most_bytes`` by the average element size."""
        contents = window_state.contents
        if self.most_bytes:
            size = int(len(contents) * self.element_bytes)
            if size > self.most_bytes:
                window = repr(window_state.window)
                raise window_too_large(window_state.owner.key, window, len(contents), size, self.most_bytes)
        return self.elements(window_state.owner.page, contents)

    @property
    def element_bytes(self) -> float:
        """The average stored bytes of an element; 0 if none is stored or counted."""
        return float(self.meta.get(_CHUNK_BYTES, 0) / max(self.meta.get(_CHUNKED, 0), 1))

    @property
    def bytes_of_elements(self) -> int:
        """The bytes of all stored elements. Reads nothing."""
        return int(self.meta.get(_CHUNK_BYTES, 0))

    def sizes(self) -> list[int]:
        """Return the bytes of each page, then of all element chunks. Reads nothing."""
        chunks = self.meta.get(_CHUNK_BYTES, 0)
        return [entry.size for entry in self._index.entries.values()] + ([chunks] if chunks else [])

    def _all_pages(self) -> list[KeyPage]:
        for number, entry in self._index.entries.items():
            self._page(number, entry.modulus)
        return [self._pages[number] for number in sorted(self._pages)]

    # ---------------------------------------------------------------- reading

    def _page(self, number: int, modulus: int) -> KeyPage:
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = KeyPage(number, modulus)
            if number in self._index.entries:
                self._read_page(page)
        return page

    def _read_page(self, page: KeyPage) -> None:
        with self.reading(PAGES, page.number) as data:
            self._page_codec.decode(page, data, self.new_window_state)
        page.at_rest = page.window_count()
        for window_state in list(page.window_states()):
            if not self._resume(window_state):
                page.dirty = True
                continue
            self.event_queue.load(window_state.event_timers)
            if window_state.processing_timers is not None:
                self.processing_queue.load(window_state.processing_timers)

    def _elements_of(self, page: KeyPage, part: ChunkSlice) -> list[Any]:
        chunk, start, count = part
        elements = page.loaded.get(chunk)
        if elements is None:
            with self.reading(ELEMENTS, chunk) as data:
                elements = page.loaded[chunk] = self._chunk_codec.decode(data)
        return elements[start : start + count]

    @contextmanager
    def reading(self, space: str, key: int) -> Iterator[bytes]:
        """Yield a value to decode. Its errors must not look like errors of the user function that caused the read."""
        try:
            data = self._state.get(space, key)
        except Exception as error:
            self.failure = error
            raise
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
        self._next_chunk = reader.header["next_segment"]
        self._index.read(reader, reader.header["pages"])

    # ---------------------------------------------------------------- writing

    def dirty_pages(self) -> list[KeyPage]:
        """Return the pages that the next commit writes."""
        return [page for _, page in sorted(self._pages.items()) if page.dirty]

    def commit(self, keep_bare: bool) -> None:
        """Write the pages that were used, and the meta record if it changed or any page was written.

        ``keep_bare`` keeps windows without contents, state or timers (purged sessions).
        """
        dirty = self.dirty_pages()
        for page in dirty:
            self._forget(page, keep_bare)
            self._count(_WINDOWS, -page.at_rest)
            page.at_rest = 0
            for split in self._split(page):
                self._write_page(split)
        self.used_keys.clear()
        self._index.grow()
        self._write_meta(anyway=bool(dirty))

    def release(self) -> None:
        """Drop everything in memory and cut all cycles (see above). The store is unusable afterwards."""
        for page in self._pages.values():
            for owner in page.keys.values():
                for window_state in owner.window_states.values():
                    window_state.free_timers()
                owner.window_states.clear()
                owner.latest = None
            page.keys.clear()
        self._pages.clear()
        self.used_keys.clear()
        self.event_queue, self.processing_queue = TimerQueue(), TimerQueue()
        self._chunk_codec.arrivals = ElementArrivals()

    @staticmethod
    def _forget(page: KeyPage, keep_bare: bool) -> None:
        for key, owner in list(page.keys.items()):
            if not keep_bare:
                for bounds in [
                    bounds
                    for bounds, window_state in owner.window_states.items()
                    if window_state.contents is EMPTY and window_state.is_bare()
                ]:
                    window_state = owner.window_states.pop(bounds)
                    window_state.alive = False
                    window_state.free_timers()
            if not owner.window_states and not owner.global_values:
                owner.latest = None  # avoid a cycle
                del page.keys[key]

    def _split(self, page: KeyPage) -> list[KeyPage]:
        """Return the page, or the pages that replace it if the number of pages has grown since it was made."""
        if page.modulus == self._index.modulus:
            return [page]
        for chunk in sorted(page.chunks):
            self._elements_of(page, (chunk, 0, 0))
        pages = {page.number: KeyPage(page.number, self._index.modulus)}
        for key, owner in page.keys.items():
            number = stable_hash(key, self._pickled) % self._index.modulus
            new = pages.get(number) or pages.setdefault(number, KeyPage(number, self._index.modulus))
            new.keys[key] = owner
            owner.page = new
            for window_state in owner.window_states.values() if self._keeps_elements else ():
                if window_state.contents is not EMPTY:
                    window_state.contents = ElementList(self.elements(page, window_state.contents))
        for chunk in sorted(page.chunks):
            self._remove_chunk(page, chunk)
        self._pages.update(pages)
        return [pages[number] for number in sorted(pages)]

    def _write_page(self, page: KeyPage) -> None:
        if self._keeps_elements:
            self._write_elements(page)
        if not page.keys:
            del self._pages[page.number]
            if self._index.remove(page.number):
                self._state.remove(PAGES, page.number)
            return
        data = self._page_codec.encode(page)
        self._state.put(PAGES, page.number, data)
        # A page whose values cannot be stored stays dirty, so that no later commit passes over it.
        page.dirty = False
        page.at_rest = page.window_count()
        self._count(_WINDOWS, page.at_rest)
        event = min((window_state.event_timers.following() for window_state in page.window_states()), default=NEVER)
        if self._keys_have_watermarks:
            # A key without timers is due when it becomes idle, since it then leaves the state.
            event = min([event, *(owner.global_values.get(PROGRESS, (NEVER,))[0] for owner in page.keys.values())])
        clocks = (
            window_state.processing_timers.following()
            for window_state in page.window_states()
            if window_state.processing_timers is not None
        )
        self._index.put(page.number, Entry(page.modulus, event, min(clocks, default=NEVER), len(data), len(page.keys)))

    def _write_elements(self, page: KeyPage) -> None:
        """Write new elements into one chunk, delete unreferenced chunks, and rewrite small ones."""
        lists = [window_state.contents for window_state in page.window_states() if window_state.contents is not EMPTY]
        live: dict[int, int] = {}
        for contents in lists:
            for part in contents.parts:
                if not isinstance(part, list):
                    live[part[0]] = live.get(part[0], 0) + part[2]
        rewritten = self._worth_rewriting(page, live, _LARGE_BYTES / max(self.element_bytes, 1))
        fresh: list[Any] = []
        for contents in lists:
            self._put_at_rest(page, contents, rewritten, fresh)
        kept = {chunk: size for chunk, size in page.chunks.items() if chunk in live and chunk not in rewritten}
        for chunk in sorted(set(page.chunks) - set(kept)):
            self._remove_chunk(page, chunk)
            page.loaded.pop(chunk, None)
        if fresh:
            kept[self._next_chunk] = len(fresh)
            data = self._chunk_codec.encode(fresh)
            self._state.put(ELEMENTS, self._next_chunk, data)
            self._count(_CHUNKED, len(fresh))
            self._count(_CHUNK_BYTES, len(data))
            page.loaded[self._next_chunk] = fresh
            self._next_chunk += 1
        page.chunks = kept

    def _remove_chunk(self, page: KeyPage, chunk: int) -> None:
        self._state.remove(ELEMENTS, chunk)
        # The bytes of a single chunk are not recorded, so its size is estimated from the average.
        elements, in_all = page.chunks[chunk], self.meta.get(_CHUNKED, 0)
        size = self.meta.get(_CHUNK_BYTES, 0) * elements // in_all if in_all > 0 else 0
        self._count(_CHUNKED, -elements)
        self._count(_CHUNK_BYTES, -size)

    def _count(self, what: str, change: int) -> None:
        # State older than the counters continues without them.
        if what in self.meta:
            self.meta[what] = max(self.meta[what] + change, 0)

    @staticmethod
    def _worth_rewriting(page: KeyPage, live: dict[int, int], large: float) -> set[int]:
        mostly_dead = {chunk for chunk, count in live.items() if count * 4 < page.chunks[chunk]}
        if len(live) <= MANY_CHUNKS:
            return mostly_dead
        # Keep the largest, so that an element is rewritten a logarithmic number of times, however long its window lives.
        small = [chunk for chunk, count in live.items() if count < large]
        return mostly_dead | set(sorted(small, key=lambda chunk: (live[chunk], chunk))[: MANY_CHUNKS * 3 // 4])

    def _put_at_rest(self, page: KeyPage, contents: ElementList, rewritten: set[int], fresh: list[Any]) -> None:
        """Move new elements, and elements of ``rewritten`` chunks, from a list to ``fresh`` and leave references."""
        parts: list[ChunkSlice | list[Any]] = []
        for part in [*contents.parts, contents.tail]:
            if not isinstance(part, list) and part[0] not in rewritten:
                parts.append(part)
                continue
            moved = part if isinstance(part, list) else self._elements_of(page, part)
            if not moved:
                continue
            start = len(fresh)
            fresh.extend(moved)
            last = parts[-1] if parts else None
            if isinstance(last, tuple) and last[0] == self._next_chunk and last[1] + last[2] == start:
                parts[-1] = (last[0], last[1], last[2] + len(moved))
            else:
                parts.append((self._next_chunk, start, len(moved)))
        contents.parts, contents.tail = parts, []

    def _write_meta(self, *, anyway: bool) -> None:
        """Write the meta record if it changed, or ``anyway``, because sealing records in it when each page was written."""
        writer = ColumnWriter()
        self._index.write(writer)
        data = writer.finish({"meta": self.meta, "pages": self._index.modulus, "next_segment": self._next_chunk})
        if anyway or data != self._written:
            self._state.put(META, 0, data)
            self._written = data


class Clocks(Protocol):
    """The current watermark and processing time."""

    watermark: int
    processing_time: int


class TriggerScope:
    """The context of triggers and evictors. One object serves all windows.

    ``current`` is the window. While windows merge, ``merged`` are the windows that are merged into it.
    """

    __slots__ = ("_store", "_times", "current", "merged")

    current: WindowState

    def __init__(self, times: Clocks, store: RowStore) -> None:
        self._times = times
        self._store = store
        self.merged: list[WindowState] = []

    def get_current_watermark(self) -> int:
        return self._times.watermark

    def get_current_processing_time(self) -> int:
        return self._times.processing_time

    def register_event_time_timer(self, time: int) -> None:
        self._store.event_queue.register(self.current.event_timers, index(time))

    def register_processing_time_timer(self, time: int) -> None:
        self._store.processing_queue.register(self.current.get_or_create_processing_timers(), index(time))

    def delete_event_time_timer(self, time: int) -> None:
        self.current.event_timers.times.discard(time)

    def delete_processing_time_timer(self, time: int) -> None:
        if self.current.processing_timers is not None:
            self.current.processing_timers.times.discard(time)

    def get_partitioned_state(self, descriptor: Any) -> Any:
        return descriptor.bind(self.current.trigger_values)

    def merge_partitioned_state(self, descriptor: ReducingStateDescriptor) -> None:
        state = descriptor.bind(self.current.trigger_values)
        for window_state in self.merged:
            value = window_state.trigger_values.get(descriptor.name)
            if value is not None:
                state.add(value)


class WindowScope:
    """The context of process functions. One object serves all windows; ``current`` is the window that it is about."""

    __slots__ = ("_merges", "_outputs", "_stateless", "_times", "current")

    current: WindowState

    def __init__(self, times: Clocks, merges: bool, *, stateless: bool = False) -> None:
        self._times = times
        self._stateless = stateless
        self._merges = merges
        self._outputs: dict[str, list[tuple[Any, Window, Any, int]]] = {}

    def window(self) -> Window:
        return self.current.window

    def current_watermark(self) -> int:
        return self._times.watermark

    def current_processing_time(self) -> int:
        return self._times.processing_time

    def window_state(self) -> KeyedStateStore:
        if self._stateless:
            raise no_state("window_state()")
        if self._merges:
            raise InvalidPlanError(
                "windows that merge do not support state per window. Keep it per key (global_state()), or in the accumulator"
            )
        if self.current.window_values is None:
            self.current.window_values = {}
        return KeyedStateStore(self.current.window_values)

    def global_state(self) -> KeyedStateStore:
        if self._stateless:
            raise no_state("global_state()")
        return KeyedStateStore(self.current.owner.global_values)

    def output(self, tag: str, value: Any) -> None:
        window_state = self.current
        self._outputs.setdefault(tag, []).append((window_state.owner.key, window_state.window, value, window_state.max_timestamp))

    def take_outputs(self) -> dict[str, list[tuple[Any, Window, Any, int]]]:
        """Return the values sent to side outputs since the last call."""
        taken, self._outputs = self._outputs, {}
        return taken
