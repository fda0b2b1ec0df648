"""Takes note of a run, and writes its report: whatever happens, and never to the harm of the run."""

from __future__ import annotations

import logging
import os
import platform
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyspark

from panestream.datastream import WindowedResult
from panestream.report.page import DONE, FAILED, RUNNING, Run, notebook_of, page_of
from panestream.report.times import Times, closes, observed_in, watched
from panestream.spark.progress.listening import ProgressListener, QueryRun
from panestream.spark.progress.micro_batch import BatchProgress

_log = logging.getLogger("panestream.report")
_SECRET = ("password", "secret", "token", "credential", "sasl", "key")
_SHOWN = ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone", "spark.master", "spark.driver.memory")


class RunReport(ProgressListener):
    """Takes note of what a query does and writes it as one page: what ran, throughput, windows, lag, lateness, state, skew.

    ::

        report = pst.tools.RunReport()
        spark.streams.addListener(report)
        query = report.watch(result).start(main=..., checkpoint=...)
        query.await_termination()
        report.write("run.html")

    It keeps a few hundred points and bins, however long the query runs. Works in classic Spark and through Spark Connect. An
    error in it never fails a query: it is logged (logger ``panestream.report``), and the page says that something is missing.
    It shows itself in a notebook, also while the query runs. Of several queries in a session it tells of the first that it hears
    of, or of the one called ``name``.

    Args:
        name: of the query, as ``start(name=...)`` has it; None: the first that has progress.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self.run = Run(name=name or "a query", started=_now())
        self._wanted = name
        self._run_id: str | None = None
        self._is_told = False

    def watch(self, result: WindowedResult, *, times: bool = True) -> WindowedResult:
        """The same query, with how late its rows are observed: start this one.

        Spark computes quantiles of event times (of the ends of windows) as it reads the rows. Results, state and checkpoint are
        those of ``result``. Where it cannot be (no event time, a watermark generator, ``arrival_order``) the result itself is
        returned, and the report tells how many rows were late but not how late.

        Args:
            result: of a stream.
            times: whether to observe how late rows are.
        """
        run = self.run
        try:
            run.plan = str(result.explain())
            strategy = result.windowed.keyed.source.watermark
            told = {"windows": repr(result.windowed.windowing.assigner), "watermark": repr(strategy)}
            told |= {"key": ", ".join(result.windowed.keyed.key_texts) or "none"}
            known = {title for title, _ in run.told}
            run.told += [(title, text) for title, text in told.items() if title not in known]
            run.delay = strategy.delay
            run.settings = _settings(result.windowed.keyed.source.df.sparkSession)
            found = watched(result) if times and result.is_streaming else None
            if found is not None and strategy.delay is not None:
                run.times, run.by_windows = Times(strategy.delay), bool(closes(result).windows)
                return found
        except Exception:  # noqa: BLE001 - a report is not worth a run
            _log.exception("the report will lack what could not be found out of the query; the query goes on")
        return result

    def batch(self, run: QueryRun, progress: BatchProgress, spark: Mapping[str, Any]) -> None:
        """Takes note of a micro-batch."""
        if run.operator or (self._wanted is not None and run.name != self._wanted):
            return
        if self._run_id is None:
            self._run_id = run.run_id
            if run.name is not None:
                self.run.name = run.name
        if run.run_id != self._run_id:
            return
        times = observed_in(spark)
        if self.run.times is not None and times is not None:
            self.run.times.add(*times, progress.watermark_before)
        if not self._is_told:
            self._take(progress, _instant(spark["timestamp"]))

    def beside(self, on_progress: Callable[[BatchProgress], Any]) -> Callable[[BatchProgress], Any]:
        """For ``start(on_progress=...)``: a function that takes note of each micro-batch before it calls another one.

        Then nothing is missing where the query ends before Spark has told its listeners; these tell how late rows were only.
        """
        self._is_told = True

        def told(progress: BatchProgress) -> None:
            try:
                with self._lock:
                    self._take(progress, _now() - 1000 * progress.duration_ms)
            except Exception:  # noqa: BLE001 - a report is not worth a run
                self.errors += 1
                _log.exception("a micro-batch will be missing in the report; the query goes on")
            on_progress(progress)

        return told

    def _take(self, progress: BatchProgress, began: int) -> None:
        self.run.points.add(progress, began)
        self.run.partitions = progress.partitions

    def ended(self, run: QueryRun, error: str | None) -> None:
        """Takes note of the end."""
        if run.run_id == self._run_id and self.run.outcome == RUNNING:
            self.run.outcome = DONE if error is None else FAILED
            self.run.error = (error or "").strip().split("\n", maxsplit=1)[0]
            self.run.ended = _now()

    def html(self) -> str:
        """The page, as a text: of the run so far, or of all of it."""
        with self._lock:
            self._close()
            return page_of(self.run)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file; one that is there is replaced at once, never half.

        Raises:
            OSError: the file cannot be written.
        """
        target, text = Path(path), self.html()
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        beside = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            beside.chmod(0o644)
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    def _close(self) -> None:
        self.run.faults = self.errors
        if self.run.outcome == RUNNING or not self.run.ended:
            self.run.ended = _now()

    def _repr_html_(self) -> str:
        with self._lock:
            self._close()
            return notebook_of(self.run)


def versions() -> str:
    """What ran it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        ours = version("panestream")
    except PackageNotFoundError:
        ours = "of a source tree"
    return f"panestream {ours}, PySpark {pyspark.__version__}, Python {platform.python_version()}, {platform.system()}"


def shown_settings(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Settings for a page that may be passed on: without what may be secret.

    >>> shown_settings({"spark.master": "local[2]", "fs.s3a.secret.key": "abc"})
    [('fs.s3a.secret.key', '(not shown)'), ('spark.master', 'local[2]')]
    """
    return [
        (name, "(not shown)" if any(each in name.lower() for each in _SECRET) else value) for name, value in sorted(given.items())
    ]


def _settings(spark: Any) -> list[tuple[str, str]]:
    found = {}
    for name in _SHOWN:
        try:
            found[name] = str(spark.conf.get(name))
        except Exception:  # noqa: BLE001, S112 - it is not set, or the server does not tell
            continue
    return shown_settings(found)


def _now() -> int:
    return time.time_ns() // 1000


def _instant(text: str) -> int:
    """An instant as Spark's progress has it."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1e6)


__all__ = ["RunReport", "shown_settings", "versions"]
