"""Recording of a run and its report, in every outcome and without harm to the run."""

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
from panestream.insight.report import DONE, FAILED, RUNNING, RecordedRun, notebook_of, page_of
from panestream.insight.report_points import ObservedDelays, closes, observed_in, watched
from panestream.spark.progress.listening import ProgressListener, QueryRun
from panestream.spark.progress.micro_batch import BatchProgress

_log = logging.getLogger("panestream.insight.report")
_SECRET = ("password", "secret", "token", "credential", "sasl", "key")
_SHOWN = ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone", "spark.master", "spark.driver.memory")


class RunReport(ProgressListener):
    """A listener that records a query and writes a page about it: plan, throughput, windows, lag, lateness, state and skew.

    ::

        report = pst.tools.RunReport()
        spark.streams.addListener(report)
        query = report.watch(result).start(main=..., checkpoint=...)
        query.await_termination()
        report.write("run.html")

    It keeps a few hundred points and bins, however long the query runs, and works in classic Spark and through Spark Connect. Its
    errors never fail a query. They are logged (logger ``panestream.insight.report``), and the page mentions that data is missing.
    A notebook shows the report, also while the query runs.

    Args:
        name: the query to record, as in ``start(name=...)``. None records the first query of the session that makes progress.

    Examples:
        >>> report = pst.tools.RunReport()
        >>> spark.streams.addListener(report)
        >>> spark.streams.removeListener(report)
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self.run = RecordedRun(name=name or "a query", started=_now())
        self._wanted = name
        self._run_id: str | None = None
        self._is_told = False

    def watch(self, result: WindowedResult, *, times: bool = True) -> WindowedResult:
        """Return the query, extended to observe how late its rows are. Start the returned query.

        Spark computes quantiles of event times (of window ends) while it reads the rows. Results, state and checkpoint are not
        affected. If times cannot be observed (without event time, with a watermark generator or ``arrival_order``), ``result``
        itself is returned, and the report shows how many rows were late but not how late.

        Args:
            result: the result of a streaming query.
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
                run.times, run.by_windows = ObservedDelays(strategy.delay), bool(closes(result).windows)
                return found
        except Exception:  # noqa: BLE001 - a report must not fail a run
            _log.exception("the report will lack what could not be found out of the query; the query goes on")
        return result

    def batch(self, run: QueryRun, progress: BatchProgress, spark: Mapping[str, Any]) -> None:
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
        """Return a function for ``start(on_progress=...)`` that records each micro-batch and then calls ``on_progress``.

        The report is then complete even if the query ends before Spark informs its listeners, which only provide lateness.
        """
        self._is_told = True

        def told(progress: BatchProgress) -> None:
            try:
                with self._lock:
                    self._take(progress, _now() - 1000 * progress.duration_ms)
            except Exception:  # noqa: BLE001 - a report must not fail a run
                self.errors += 1
                _log.exception("a micro-batch will be missing in the report; the query goes on")
            on_progress(progress)

        return told

    def _take(self, progress: BatchProgress, began: int) -> None:
        self.run.points.add(progress, began)
        self.run.partitions = progress.partitions

    def ended(self, run: QueryRun, error: str | None) -> None:
        if run.run_id == self._run_id and self.run.outcome == RUNNING:
            self.run.outcome = DONE if error is None else FAILED
            self.run.error = (error or "").strip().split("\n", maxsplit=1)[0]
            self.run.ended = _now()

    def html(self) -> str:
        """Return the page as HTML, also while the run continues."""
        with self._lock:
            self._close()
            return page_of(self.run)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file. An existing file is replaced atomically.

        Raises:
            OSError: if the file cannot be written.
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
    """Return the versions of panestream, PySpark, Python and the system."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        ours = version("panestream")
    except PackageNotFoundError:
        ours = "of a source tree"
    return f"panestream {ours}, PySpark {pyspark.__version__}, Python {platform.python_version()}, {platform.system()}"


def shown_settings(given: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return settings without values that may be secret, since a page may be shared.

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
        except Exception:  # noqa: BLE001, S112 - it is not set, or the server does not report it
            continue
    return shown_settings(found)


def _now() -> int:
    return time.time_ns() // 1000


def _instant(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1e6)
