"""The Spark session of a command, whose log goes to a file instead of the command's output."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from panestream.errors import JobError, PanestreamError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE = "spark.remote"
SessionOf = Callable[[str, Mapping[str, str]], AbstractContextManager["SparkSession"]]
"""Creates a session from the application name and Spark's settings: :class:`QuietSession`, or a test's replacement."""


class QuietSession(AbstractContextManager["SparkSession"]):
    """A temporary Spark session whose log goes to a file, which is named if Spark fails and otherwise deleted.

    The settings may include ``spark.master`` and ``spark.remote``. A missing Java or an unsupported version of Spark raises
    ``EnvironmentNotReadyError``.
    """

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        from panestream.spark.session import build_session, errors_into

        others = {each: value for each, value in settings.items() if each != "spark.master"}
        # Java and the Python workers inherit stderr; their messages would disrupt the output of the command.
        handle, log = tempfile.mkstemp(prefix="panestream-spark-", suffix=".log")
        self.log = Path(log)
        try:
            with errors_into(handle):
                self.spark = build_session(name, others, settings.get("spark.master"))
        except BaseException:
            self._tell_log()
            raise

    def __enter__(self) -> SparkSession:
        return self.spark

    def __exit__(self, *exception: object) -> None:
        try:
            self.spark.stop()
        finally:
            if isinstance(exception[1], Exception) and not isinstance(exception[1], PanestreamError):
                self._tell_log()
            else:
                self.log.unlink(missing_ok=True)

    def _tell_log(self) -> None:
        print(f"What Spark said is in {self.log}", file=sys.stderr)


def settings_of(given: Sequence[str], remote: str | None = None) -> dict[str, str]:
    """Return the settings from ``--conf NAME=VALUE`` and ``--remote URL``; raise ``JobError`` for another form."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise JobError(f"--conf takes NAME=VALUE, as in --conf spark.driver.memory=4g, not {text!r}")
        found[name.strip()] = value
    return found | ({} if remote is None else {REMOTE: remote})


__all__ = ["QuietSession", "SessionOf", "settings_of"]
