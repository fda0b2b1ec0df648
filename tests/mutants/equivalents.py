"""Faults that no test can notice, since they change nothing that is promised: each with the reason.

`run.py` reads it: what stands here is told in the table as equivalent, and what survives without standing here is a hole.
"""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {
    "engine/exchange/group_run.py:bodies: constant: 1 -> 2 (2)": (
        "It keeps a division from one by nothing: a table that has rows has more bytes than two."
    ),
    "engine/operators/counts/shape.py:CountShape.first_kept: sign: -1 -> +1": (
        "Where windows have no size nobody asks for it: all that was fired is one pane, by another way."
    ),
    "engine/operators/counts/operator.py:CountOperator._contents: sign: since + fresh - 1 -> since + fresh + 1": (
        "The axis has room for a pane more. It has no rows, so nothing is kept of it, and it is never complete."
    ),
    "engine/operators/sessions/firing.py:session_rows: constant: 1 -> 2 (3)": (
        "Of each session what is taken back still comes before what takes its place. Between sessions no order is promised."
    ),
    "engine/kernels/ranges.py:windows_of: constant: 12 -> 13": (
        "It decides which of two ways is taken to the same places: a search for each row, or one for each pane of the span."
    ),
    "engine/kernels/grouping.py:_encode_integers: constant: 1 -> 2 (2)": (
        "The table of what was seen has room for one value more, above the largest: none is, and it gets no code."
    ),
    "engine/operators/accumulating/windowed_rows.py:_joined: comparison: part.dtype != plain -> part.dtype == plain": (
        "Frames of one type are then taken one by one, as frames of several types are: the same columns, more slowly."
    ),
    "engine/aggregates/histograms.py:_comparable: constant: False -> True": (
        "Numbers that are floats already are copied, and nobody changes the copy or what it is of."
    ),
    "engine/aggregates/top.py:TopKAccumulator._insert: comparison: place < self._k -> place <= self._k": (
        "What is put behind the last place is cut off again by the next statement."
    ),
    "engine/operators/row/window_states.py:ElementList.drop_first: sign: len(part) - gone -> len(part) + gone": (
        "A list that was emptied stays in front, counts for nothing, and goes when something is dropped again."
    ),
    "engine/operators/look_back/operator.py:LookBackOperator._on_a_line: sign: places[-1] + 1 -> places[-1] - 1": (
        "Partials of which there is one for each place are merged, too: they stay what they are, more slowly."
    ),
    "engine/operators/look_back/history.py:History._settle: sign: fewer * _WORTH -> fewer + _WORTH": (
        "It decides of which slices partials are worth writing: rows are read in place of those, to the same results."
    ),
    "engine/operators/row/state.py:RowStore.release: left out: self._chunk_codec.arrivals = Arrivals() -> pass": (
        "The store is not used any more: memory goes when Python finds the circle, and not at once."
    ),
    "engine/operators/accumulating/windowed_rows.py:fitted: constant: False -> True": (
        "The index of a frame then is a column, too, and only the declared ones are taken."
    ),
    "engine/operators/intervals/spec.py:IntervalSpec.pack: and / or: plan.late_tag is not None and chunk.rows is not None -> plan.late_tag is not None or chunk.rows is not None": (
        "Rows as they came cross where there is an output for late ones, and only then: both hold, or neither."
    ),
    "engine/operators/look_back/history.py:_span: comparison: low < end -> low <= end": (
        "Where both are the same the span ends where it begins, and has no rows, as one that is left out."
    ),
    "engine/operators/panes/rollups.py:_spans: argument left out: np.argsort(lows[some], kind='stable') -> np.argsort(lows[some])": (
        "No two of the spans begin at the same pane: they are parts of windows' spans between cuts, which do not overlap."
    ),
    "engine/kernels/calendar_grid.py:ZonedGrid.panes_of: constant: 4 -> 5": (
        "It decides which of two ways is taken to the same panes: a search among edges, or the wall clock of each row."
    ),
    "engine/operators/panes/operator.py:PaneOperator._close: sign: last_ended(one, closed) + 1 -> last_ended(one, closed) - 1": (
        "How often two windows that are closed have fired rests until two more are: nobody asks for it, nor is it among the tables."
    ),
    "spark/progress/listening.py:ProgressListener._on_progress: the other way out: continue -> break": (
        "Nothing is told of an operator where no micro-batch ran: then there is nothing of the next ones, either."
    ),
    "spark/savepoint/values.py:StoredState.made_of: argument left out: self.values(header_only=header_only) -> self.values()": (
        "More is read from Spark's state store than the header is made of: the same header, more slowly."
    ),
    "engine/aggregates/top.py:PartialTopK.combine: constant: 0 -> 1 (2)": (
        "Where no list has a value, more columns without ranks are folded: of those nothing is kept either."
    ),
    "engine/tiles/as_of.py:_Tree.cover: constant: 1000 -> 1001": (
        "It puts what was taken on the right behind what was taken on the left: any number does that is above all levels."
    ),
    "engine/storage/keyed_pages.py:_cut: constant: 0 -> 1": (
        "A page without rows is not cut: of its bytes is only asked whether they are more than a page may have."
    ),
}
