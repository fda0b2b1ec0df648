"""``pst.tools.timeline``: the picture of one query's windows, or of several beside each other."""

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
    """A picture of rows, windows, the watermark and firings: shows itself in a notebook, or is saved.

    Attributes:
        layouts: what is in it, and where, one for each query.
    """

    def __init__(self, layouts: tuple[Layout, ...], titles: tuple[str, ...]) -> None:
        """What is drawn, and what stands above each."""
        self.layouts = layouts
        self._titles = titles

    def __repr__(self) -> str:
        rows, bars = sum(one.rows for one in self.layouts), sum(len(one.bars) for one in self.layouts)
        windows = "many" if any(one.windows is not None for one in self.layouts) else bars
        return f"<Timeline: {rows} rows, {windows} windows; .save('windows.svg') or .save('windows.png')>"

    def svg(self, *, themed: bool = True) -> str:
        """The picture as SVG: the same run gives the same text, and its text is text.

        Args:
            themed: light on dark, or dark on light, as the reader's system is; False: in the colour of the text around it, for
                a page that it is put into.

        Raises:
            ModuleNotFoundError: matplotlib is not there: ``pip install 'panestream[cli]'``.
        """
        return svg(self.layouts, self._titles, themed=themed, label=f"Rows and windows over time: {'; '.join(self._titles)}")

    def png(self) -> bytes:
        """The picture as PNG, on white.

        Raises:
            ModuleNotFoundError: as of :meth:`svg`.
        """
        return png(self.layouts, self._titles)

    def save(self, path: str | Path) -> Path:
        """Writes the picture, as what its name ends with says.

        Args:
            path: ends with ``.svg`` or ``.png``; its folder must be there.

        Returns:
            The path.

        Raises:
            InvalidPlanError: another ending.
            ModuleNotFoundError: as of :meth:`svg`.
            OSError: it cannot be written.
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
    """Draws what happened to rows and windows.

    Above, each row at its event time (to the right), in the order in which rows came (downwards), with the watermark as a line:
    what lies left of it came behind it. Late rows are red crosses, evicted ones are struck through. Below, each window as a bar,
    by key, with its firings: early, on time, late, and what they gave where that is short; a session with the windows that it
    grew out of. Beyond 400 rows, or 24 lanes of windows, a picture shows how many there are at each time, instead of each.

    Args:
        sources: harnesses made with ``traced=True``, results over batches, checkpoints (of which what is open is drawn, with the
            rows that are kept), or traces; several are drawn one below the other on one time axis.
        key: only rows and windows of this key.
        titles: what stands above each; default: the windows, their trigger and evictor.

    Returns:
        The picture; nothing is drawn before it is shown or saved.

    Raises:
        InvalidPlanError: no source, or one without a trace; windows of event time beside those of the clock; titles, but not
            as many.

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
