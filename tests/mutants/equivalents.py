"""Faults that no test can detect, since they change nothing that is promised, each with the reason.

`run.py` reads this table. It reports a surviving fault as equivalent if it is listed here, and otherwise as a gap in the tests.
"""

from __future__ import annotations

# Sorted by name, so that two people rarely insert at the same place.
EQUIVALENT: dict[str, str] = {
    "engine/aggregates/aggregation.py:KeptRows.result: constant: 1 -> 2 (2)": (
        "Of two ends the first is that of the only window: the second has no beginning, and is not looked at."
    ),
    "engine/aggregates/lists.py:PartialTopK.combine: constant: 0 -> 1 (2)": (
        "Where no list has a value, more columns without ranks are folded: of those nothing is kept either."
    ),
    "engine/aggregates/lists.py:TopKAccumulator._insert: comparison: place < self._k -> place <= self._k": (
        "What is put behind the last place is cut off again by the next statement."
    ),
    "engine/aggregates/quantiles.py:_comparable: constant: False -> True": (
        "Numbers that are floats already are copied, and nobody changes the copy or what it is of."
    ),
    "engine/aggregates/two_phase.py:PartialAccumulator._failed: argument left out: TracebackException.from_exception(error, lookup_lines=False) -> TracebackException.from_exception(error)": (
        "The lines of the source are then read, of which what is shown has none."
    ),
    "engine/exchange/group_run.py:bodies: constant: 1 -> 2 (2)": (
        "It keeps a division from one by nothing: a table that has rows has more bytes than two."
    ),
    "engine/inspection/reduce.py:histogram: constant: 1 -> 2": ("The loop sets the width before anybody reads it."),
    "engine/kernels/calendar_grid.py:MixedGrid.starts_of: comparison: self.panes_of(high) >= panes -> self.panes_of(high) > panes": (
        "It decides how far around a guess is looked. Where what is asked for begins at the end of that, it is looked further."
    ),
    "engine/kernels/calendar_grid.py:ZonedGrid.panes_of: constant: 4 -> 5": (
        "It decides which of two ways is taken to the same panes: a search among edges, or the wall clock of each row."
    ),
    "engine/kernels/grouping.py:_encode_integers: argument left out: np.cumsum(seen, dtype=np.int32) -> np.cumsum(seen)": (
        "The codes then have eight bytes each where four are enough: the same numbers."
    ),
    "engine/kernels/grouping.py:_encode_integers: constant: 1 -> 2 (2)": (
        "The table of what was seen has room for one value more, above the largest: none is, and it gets no code."
    ),
    "engine/kernels/python_values.py:instants: sign: value - _EPOCH -> value + _EPOCH": (
        "No two datetimes can be added: all values then go Arrow's own way, to the same instants and errors, more slowly."
    ),
    "engine/kernels/ranges.py:windows_of: constant: 12 -> 13": (
        "It decides which of two ways is taken to the same places: a search for each row, or one for each pane of the span."
    ),
    "engine/operators/accumulating/operator.py:AccumulatingOperator._due: constant: 1 -> 2": (
        "Where a table is given another shape, any number below zero says: as many rows as there are."
    ),
    "engine/operators/accumulating/windowed_rows.py:_column: argument left out: pa.array(series, from_pandas=True) -> pa.array(series)": (
        "Arrow takes the nulls of pandas by default if the values are a series of pandas."
    ),
    "engine/operators/accumulating/windowed_rows.py:_from_tables: argument left out: groupby(tables, key=lambda table: table.schema) -> groupby(tables)": (
        "Tables that are not equal are then cast one by one, and not together: the same columns."
    ),
    "engine/operators/accumulating/windowed_rows.py:_joined: comparison: part.dtype != plain -> part.dtype == plain": (
        "Frames of one type are then taken one by one, as frames of several types are: the same columns, more slowly."
    ),
    "engine/operators/columnar.py:on_a_line: sign: places[-1] + 1 -> places[-1] - 1": (
        "Partials of which there is one for each place are merged, too: they stay what they are, more slowly."
    ),
    "engine/operators/counts.py:CountOperator._contents: constant: 1 -> 2 (3)": (
        "The axis has room for a pane more of each key. It has no rows, so nothing is kept of it, and it is never complete."
    ),
    "engine/operators/counts.py:CountOperator._contents: sign: since + fresh - 1 -> since + fresh + 1": (
        "The axis has room for a pane more. It has no rows, so nothing is kept of it, and it is never complete."
    ),
    "engine/operators/counts.py:CountShape.first_kept: constant: 1 -> 2": (
        "Where windows have no size nobody asks for it: all that was fired is one pane, by another way."
    ),
    "engine/operators/counts.py:CountShape.first_kept: sign: -1 -> +1": (
        "Where windows have no size nobody asks for it: all that was fired is one pane, by another way."
    ),
    "engine/operators/intervals.py:IntervalOperator._emit_alone: comparison: abs(time) > BEYOND_ALL -> abs(time) >= BEYOND_ALL": (
        "No watermark is exactly that far: before the first row and at the end it is farther, else it is an instant."
    ),
    "engine/operators/intervals.py:IntervalOperator._emit_pairs: and / or: not left.num_rows or not right.num_rows -> not left.num_rows and (not right.num_rows)": (
        "It spares a search: where one of the two has no rows, no row finds a partner, and the next statement returns."
    ),
    "engine/operators/look_back/history.py:RowsByTime._settle: sign: fewer * _WORTH -> fewer + _WORTH": (
        "It decides of which slices partials are worth writing: rows are read in place of those, to the same results."
    ),
    "engine/operators/look_back/history.py:_span: comparison: low < end -> low <= end": (
        "Where both are the same the span ends where it begins, and has no rows, as one that is left out."
    ),
    "engine/operators/look_back/operator.py:LookBackOperator._history_of: comparison: sum((span.rows for span in spans)) > _MANY_FOR_EACH * rows.num_rows -> sum((span.rows for span in spans)) >= _MANY_FOR_EACH * rows.num_rows": (
        "It decides whether partials of other keys are left out before they are sorted, or take part and are asked for by no row."
    ),
    "engine/operators/panes/operator.py:PaneOperator._close: sign: last_ended(one, closed) + 1 -> last_ended(one, closed) - 1": (
        "How often two windows that are closed have fired rests until two more are: nobody asks for it, nor is it among the tables."
    ),
    "engine/operators/panes/operator.py:PaneSpec.pack: and / or: plan.late_tag is not None and chunk.rows is not None -> plan.late_tag is not None or chunk.rows is not None": (
        "Rows as they came cross where there is an output for late ones, and only then: both hold, or neither."
    ),
    "engine/operators/panes/rollups.py:_spans: argument left out: np.argsort(lows[some], kind='stable') -> np.argsort(lows[some])": (
        "No two of the spans begin at the same pane: they are parts of windows' spans between cuts, which do not overlap."
    ),
    "engine/operators/predicates.py:PredicateOperator._fire: returns None: return fresh -> return (2)": (
        "At the end of the input nothing is kept, so that nobody looks at what is left."
    ),
    "engine/operators/predicates.py:PredicateOperator._left: constant: 0 -> 1 (2)": (
        "The column has another name then, and the same type: partials are merged by their places."
    ),
    "engine/operators/row/contents.py:ElementList.drop_first: sign: len(part) - gone -> len(part) + gone": (
        "A list that was emptied stays in front, counts for nothing, and goes when something is dropped again."
    ),
    "engine/operators/row/state.py:RowStore.release: left out: self._chunk_codec.arrivals = ElementArrivals() -> pass": (
        "The store is not used any more: memory goes when Python finds the circle, and not at once."
    ),
    "engine/operators/sessions/arrivals.py:_frontier: constant: 1 -> 2": (
        "A span that is not taken counts nothing: any number below zero says so."
    ),
    "engine/operators/sessions/arrivals.py:_frontier: constant: 1 -> 2 (2)": (
        "Where nothing came before there is no session: any number below zero says so."
    ),
    "engine/operators/sessions/arrivals.py:_frontier: constant: 1 -> 2 (5)": (
        "Where a key begins nothing came before: any number below zero says so."
    ),
    "engine/operators/sessions/arrivals.py:_less: comparison: np.bincount(rows.sessions[late], minlength=len(spans.codes)) > 0 -> np.bincount(rows.sessions[late], minlength=len(spans.codes)) >= 0": (
        "Local sessions that lose no row are built anew, too, of all their rows: they stay what they are, more slowly."
    ),
    "engine/operators/sessions/arrivals.py:_taken: constant: 1 -> 2 (9)": (
        "The table of runs has room for one more, behind the last: no span is of it."
    ),
    "engine/operators/sessions/arrivals.py:_taken: sign: np.cumsum(breaks) - 1 -> np.cumsum(breaks) + 1": (
        "Runs are numbered from two on: the table of them grows with the last, and the first two are of no span."
    ),
    "engine/operators/sessions/arrivals.py:late_rows: constant: 1 -> 2 (3)": (
        "The table of suspects has room for one more, behind the last: no span is of it."
    ),
    "engine/operators/sessions/arrivals.py:late_rows: sign: -1 -> +1": (
        "Of no spans at all the table of suspects has room for two: no span is of them."
    ),
    "engine/operators/sessions/exchange.py:coarse: comparison: int(shifted.max()) < 1 << 24 -> int(shifted.max()) <= 1 << 24": (
        "It decides whether small numbers are made smaller still, to be sorted faster: they have the same order."
    ),
    "engine/operators/sessions/exchange.py:coarse: constant: 1 -> 2": (
        "It decides whether small numbers are made smaller still, to be sorted faster: they have the same order."
    ),
    "engine/operators/sessions/exchange.py:coarse: constant: 24 -> 25": (
        "It decides whether small numbers are made smaller still, to be sorted faster: they have the same order."
    ),
    "engine/operators/sessions/exchange.py:coarse: constant: 64 -> 65": (
        "A look at the first few spares one at all of them, which is taken anyway where these say nothing."
    ),
    "engine/operators/sessions/exchange.py:coarse: sign: 1 << 24 -> 1 >> 24": (
        "It decides whether small numbers are made smaller still, to be sorted faster: they have the same order."
    ),
    "engine/operators/sessions/exchange.py:coarse: the other of two: (shifted[:64] % step).any() -> (shifted[:64] % step).all()": (
        "A look at the first few spares one at all of them, which is taken anyway where these say nothing."
    ),
    "engine/operators/sessions/operator.py:SessionSpec._gaps: argument left out: numbers(column).astype(np.int64, copy=False) -> numbers(column).astype(np.int64)": (
        "Numbers that are of this type already are copied, and nobody changes the copy or what it is of."
    ),
    "engine/operators/sessions/operator.py:SessionSpec._gaps: constant: False -> True": (
        "Numbers that are of this type already are copied, and nobody changes the copy or what it is of."
    ),
    "engine/operators/sessions/operator.py:SessionSpec.views: constant: 1 -> 2 (3)": (
        "A session that never fired has no word: any number below zero says so."
    ),
    "engine/operators/sessions/operator.py:session_rows: constant: 1 -> 2": (
        "Of a session that does not fire: any number below zero says so."
    ),
    "engine/operators/sessions/operator.py:session_rows: constant: 1 -> 2 (2)": (
        "What is gone comes first: any number below zero puts it there."
    ),
    "engine/operators/sessions/operator.py:session_rows: constant: 1 -> 2 (3)": (
        "Of each session what is taken back still comes before what takes its place. Between sessions no order is promised."
    ),
    "engine/operators/two_sides.py:TwoSidesSpec.pack: and / or: plan.late_tag is not None and chunk.rows is not None -> plan.late_tag is not None or chunk.rows is not None": (
        "Rows as they came cross where there is an output for late ones, and only then: both hold, or neither."
    ),
    "engine/runtime/group_operator.py:GroupOperator._advance: constant: 1 -> 2": (
        "Windows of the clock that had ended a step earlier have fired and gone: none is there to fire again."
    ),
    "engine/runtime/group_operator.py:last_instant: constant: 0 -> 1 (2)": (
        "It is the clock, for which windows of event time do not ask."
    ),
    "engine/runtime/sides.py:Pairs._unknown_apart: constant: 0 -> 1": (
        "Lists of nothing then lie over one value, of which none of them is."
    ),
    "engine/runtime/state_views.py:_struct: constant: True -> False": (
        "It is cast to the type that the view has, whatever the fields of a struct say of nulls."
    ),
    "engine/runtime/watermarks.py:WatermarkTracker._note_silence: constant: 0 -> 1": (
        "Where nobody is ever idle no time is counted: nobody looks at the step."
    ),
    "engine/runtime/watermarks.py:WatermarkTracker.take_in: and / or: after is not None and self.silence is not None -> after is not None or self.silence is not None": (
        "A tracker knows of silence where its strategy closes after some: both hold, or neither."
    ),
    "engine/storage/blocks.py:sorted_by_pane: comparison: panes[1:] >= panes[:-1] -> panes[1:] > panes[:-1]": (
        "Rows of one time are then sorted, too, in an order that leaves them as they are."
    ),
    "engine/storage/keyed_pages.py:KeyedPages._replace: constant: 0 -> 1": (
        "The page of which nothing is left is the first, and its range is put to 0 by the next statement."
    ),
    "engine/storage/keyed_pages.py:_cut: constant: 0 -> 1": (
        "A page without rows is not cut: of its bytes is only asked whether they are more than a page may have."
    ),
    "engine/tiles/as_of.py:AsOf._answered: constant: 1 -> 2": ("Where a question has no rows: any number below zero says so."),
    "engine/tiles/as_of.py:_ByRows.results: comparison: first > last -> first >= last": (
        "Where no whole slice lies between them, head and tail are then one range: the same rows in the same order."
    ),
    "engine/tiles/as_of.py:_ByRows.results: comparison: panes.starts_of(first) < begins -> panes.starts_of(first) <= begins": (
        "Of a window that begins with a slice that slice is then counted row by row: its rows are at hand, as those of every slice that windows begin in."
    ),
    "engine/tiles/as_of.py:_Tree.cover: constant: 0 -> 1 (3)": ("A slice of no rows, wherever it begins, has none."),
    "engine/tiles/as_of.py:_Tree.cover: constant: 1000 -> 1001": (
        "It puts what was taken on the right behind what was taken on the left: any number does that is above all levels."
    ),
    "engine/tiles/as_of.py:_distinct: constant: 1 -> 2": ("Where a question has no instant: any number below zero says so."),
    "engine/tiles/as_of.py:_of_nothing: constant: 1 -> 2 (2)": ("Of two nulls the first is taken, as the only one is."),
    "engine/tiles/format.py:check_whole: sign: grid.origin + edge -> grid.origin - edge": (
        "The first edge is 0, so the origin itself must fit: then an edge fits, or does not, whatever its sign is."
    ),
    "engine/tiles/format.py:windows_of_tiles: constant: 1 -> 2": (
        "Windows are looked for in the pane after each tile as well. Those that hold no row are none of the results."
    ),
    "engine/tiles/format.py:windows_of_tiles: sign: ends - 1 -> ends + 1": (
        "Windows that begin where the last pane ends are asked for, too: no partial lies in them, so they have no results."
    ),
    "spark/batch_output.py:_merged: constant: 0 -> 1": ("A part that is alone has the type of the whole already, so it fits."),
    "spark/compat.py:check_data_frames: constant: 0 -> 1": (
        "Only the class of the groups is looked at, which does not depend on the rows."
    ),
    "spark/savepoint/decode.py:StoredState.map_groups: argument left out: self.values(header_only=header_only) -> self.values()": (
        "More is read from Spark's state store than the header is made of: the same header, more slowly."
    ),
    "spark/savepoint/locate.py:_link_to: argument left out: (Path(home.name) / 'checkpoint').symlink_to(folder, target_is_directory=True) -> (Path(home.name) / 'checkpoint').symlink_to(folder)": (
        "Only Windows asks whether the target of a link is a folder."
    ),
    "spark/savepoint/manifest.py:read_manifest: comparison: format_ > CHAIN_FORMAT -> format_ >= CHAIN_FORMAT": (
        "It is asked only where the two are not the same."
    ),
    "windowing/assigners/business.py:_OfBusiness._begin: constant: 1 -> 2": (
        "A step of two days over days off goes too far by one at most, and the search goes back by it."
    ),
    "windowing/assigners/business.py:_OfBusiness._begin: constant: 7 -> 8": (
        "It is where the search for a day begins, which ends at the same one."
    ),
    "windowing/assigners/business.py:_OfBusiness._begin: sign: number * 7 -> number + 7": (
        "It is where the search for a day begins, which ends at the same one."
    ),
    "windowing/assigners/business.py:_OfBusiness._begin: sign: number * 7 // len(self.workdays) -> number * 7 * len(self.workdays)": (
        "It is where the search for a day begins, which ends at the same one."
    ),
    "windowing/assigners/business.py:_time: constant: 1 -> 2 (2)": ("Any number below zero says that it is no time."),
    "windowing/assigners/calendar.py:CalendarWindows.__post_init__: constant: 0 -> 1": (
        "The smallest unit is an hour: no number of units is one microsecond long."
    ),
    "windowing/assigners/calendar.py:CalendarWindows._ends: constant: 1 -> 2 (3)": (
        "Steps are hours or days, of which a window has a whole number: none ends a microsecond behind the last."
    ),
    "windowing/triggers/after.py:Repeating.fire: returns None: return False -> return": (
        "None is as false as False: whoever asks only asks whether."
    ),
    "windowing/triggers/after.py:_WatermarkNode.begin: left out: self._early.begin(now) -> pass": (
        "What waits from its turn on waits for the end of the window, for which this waits itself."
    ),
    "windowing/triggers/after.py:_WatermarkNode.fire: constant: 1 -> 2": (
        "That there is a number says that it has fired, whichever it is."
    ),
    "windowing/triggers/after.py:_WatermarkNode.fire: returns None: return self._late.fire(now) -> return": (
        "What is late repeats and never finishes, and None is as false as False."
    ),
    "windowing/triggers/after.py:_WatermarkNode.merge: left out: self._wait(now) -> pass": (
        "The row that made windows one comes to the one next, and waits for the same end."
    ),
    "windowing/triggers/combined.py:_InTurn.fire: returns None: return False -> return": (
        "None is as false as False: whoever asks only asks whether."
    ),
    "windowing/triggers/combined.py:_InTurn.fire: returns None: return False -> return (2)": (
        "None is as false as False: whoever asks only asks whether."
    ),
    "windowing/triggers/composition.py:Composition._has_finished: returns None: return False -> return": (
        "None is as false as False: whoever asks only asks whether."
    ),
    "windowing/triggers/composition.py:LeafTrigger.fire: returns None: return False -> return": (
        "None is as false as False: whoever asks only asks whether."
    ),
    "windowing/triggers/composition.py:_known: sign: place + descriptor.name -> place - descriptor.name": (
        "Where it fails the caller does the same by itself, more slowly."
    ),
    "windowing/triggers/time.py:_AtTheEnd.on_merge: left out: self._register(window.max_timestamp(), ctx) -> pass": (
        "The row that made windows one comes to the one next, and waits for the same end."
    ),
}
