"""The processor for Spark 4.0, which only has ``transformWithStateInPandas``: panestream's only use of pandas.

A key group's micro-batch is a few binary rows. They come as data frames and leave as data frames of one row each. Only their
fields are read, so the cost of pandas does not grow with the rows of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from panestream.spark.operator.processor import WindowProcessor

_FIELDS = ("origin", "sequence", "parts_left", "body")


class DataFrameWindowProcessor(WindowProcessor):
    """The processor for ``transformWithStateInPandas``, with the state and timers of its base class."""

    def parts_of(self, rows: Iterator[Any]) -> list[Sequence[Any]]:
        # tolist returns Python's numbers instead of numpy's.
        return [part for frame in rows for part in zip(*(frame[name].tolist() for name in _FIELDS), strict=True)]

    def entries_of(self, initial: Any) -> Iterable[tuple[str | None, int, bytes]]:
        return zip(*(initial[name].tolist() for name in ("space", "number", "value")), strict=True)

    def rows_of(self, output: Iterable[tuple[str, bytes]]) -> Iterator[Any]:
        import pandas as pd

        # Spark makes an Arrow batch of each frame. With one body in each, none exceeds Arrow's size limit.
        for tag, body in output:
            yield pd.DataFrame({"tag": [tag], "body": [body]})
