"""``pst.tools.timeline``: a picture of the windows of one or several queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from panestream.errors import InvalidPlanError
from panestream.pages.words import printable
from panestream.pictures.drawing import png, svg
from panestream.pictures.layout import Layout, by_clock, layout, span_of
from panestream.tracing.events import Trace
from panestream.tracing.why import ANY, Traceable, trace_of

_LONGEST = 110


class Timeline:
    """A picture of rows, windows, the watermark and firings, which can be shown in a notebook or saved.

    Attributes:
        layouts: the contents and their positions, one for each query.
    """

    def __init__(self, layouts: tuple[Layout, ...], titles: tuple[str, ...]) -> None:
        self.layouts = layouts
        self._titles = titles

    def __repr__(self) -> str:
        rows, bars = sum(one.rows for one in self.layouts), sum(len(one.bars) for one in self.layouts)
        windows = "many" if any(one.windows is not None for one in self.layouts) else bars
        return f"<Timeline: {rows} rows, {windows} windows; .save('windows.svg') or .save('windows.png')>"

    def svg(self, *, themed: bool = True) -> str:
        """Return the picture as SVG with real text. Equal runs return equal SVG.

        Args:
            themed: whether colours follow the reader's system, light or dark. If False, they follow the text around the
                picture.

        Raises:
            ModuleNotFoundError: if matplotlib is missing (``pip install 'panestream[cli]'``).
        """
        return svg(self.layouts, self._titles, themed=themed, label=f"Rows and windows over time: {'; '.join(self._titles)}")

    def png(self) -> bytes:
        """Return the picture as PNG, on white. Errors are as for :meth:`svg`."""
        return png(self.layouts, self._titles)

    def save(self, path: str | Path) -> Path:
        """Save the picture in the format of the file name, and return the path.

        Args:
            path: a name that ends with ``.svg`` or ``.png``, in an existing folder.

        Raises:
            InvalidPlanError: if the name has another ending.
            ModuleNotFoundError: as for :meth:`svg`.
            OSError: if the file cannot be written.
        """
        path = Path(path)
        if path.suffix == ".svg":
            path.write_text(self.svg(), encoding="utf-8")
        elif path.suffix == ".png":
            path.write_bytes(self.png())
        else:
            raise InvalidPlanError(f"a picture is saved as .svg or .png, not as {path.name!r}")
        return path

    def _repr_svg_(self) -> str:
        return self.svg()


def timeline(*sources: Trace | Traceable, key: Any = ANY, titles: tuple[str, ...] | list[str] = ()) -> Timeline:
    """Draw the history of rows and windows.

    The upper part has each row at its event time (to the right) and in order of arrival (downwards). The watermark is a line, and
    had already passed the rows to its left. Late rows are red crosses, and evicted rows are struck through. The lower part has
    each window as a bar, by key, with its early, on-time and late firings and their results if these are short. A session also
    has the windows merged into it. With more than 400 rows or 24 lanes of windows, the picture shows counts over time instead.

    Args:
        sources: harnesses made with ``traced=True``, results over batches, checkpoints (drawn with open windows and stored rows),
            or traces. Several are drawn one below the other on one time axis.
        key: only rows and windows of this key.
        titles: one for each source. The default names the windows, their trigger and evictor.

    Returns:
        The picture. Drawing starts when it is shown or saved.

    Raises:
        InvalidPlanError: if sources are missing, cannot be traced, or differ in their kind of time, or if the number of titles
            is wrong.

    >>> import panestream as pst
    >>> harness = pst.testing.WindowTestHarness(pst.TumblingEventTimeWindows.of("1 minute"), reduce=max, traced=True)
    >>> harness.process_element(7, "10 seconds", key="ann")
    >>> harness.process_watermark("1 minute")
    >>> pst.tools.timeline(harness)
    <Timeline: 1 rows, 1 windows; .save('windows.svg') or .save('windows.png')>
    """
    traces = [_of_key(trace_of(source), key) for source in sources]
    if not traces:
        raise InvalidPlanError("timeline wants at least one harness made with traced=True, or a trace")
    if titles and len(titles) != len(traces):
        raise InvalidPlanError(f"timeline has {len(traces)} pictures and {len(titles)} titles: give one for each")
    if len({(by_clock(trace), trace.in_microseconds) for trace in traces}) > 1:
        raise InvalidPlanError(
            "these have no time axis in common: event time and the clock, or microseconds and other numbers. Draw them apart"
        )
    spans = [span_of(trace) for trace in traces]
    span = min(first for first, _ in spans), max(last for _, last in spans)
    named = tuple(map(_titled, titles or (trace.description for trace in traces)))
    return Timeline(tuple(layout(trace, span) for trace in traces), named)


def _titled(text: str) -> str:
    return printable(text, _LONGEST)


def _of_key(trace: Trace, key: Any) -> Trace:
    return trace if key is ANY else trace.of_key(key)


__all__ = ["Timeline", "timeline"]
