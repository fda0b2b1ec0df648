"""Spark for a command: a session of its own, whose words go to a file rather than between what the command prints."""

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
"""Makes the session of a command, of the application's name and Spark's settings: :class:`QuietSession`, or that of a test."""


class QuietSession(AbstractContextManager["SparkSession"]):
    """A session that is made and ended. What Spark says is in a file, which is named where Spark failed, and deleted else.

    Args:
        name: of the application.
        settings: Spark settings; ``spark.master`` and ``spark.remote`` too.

    Raises:
        EnvironmentNotReadyError: Java is missing, or Spark is of a version that does not work.
    """

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        from panestream.spark.session import build_session, errors_into

        others = {each: value for each, value in settings.items() if each != "spark.master"}
        # Java and the Python workers inherit the error output: what they say would tear what the command prints.
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
    """What was typed as ``--conf NAME=VALUE`` and ``--remote URL``.

    Raises:
        JobError: one of them is not of this form.
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise JobError(f"--conf takes NAME=VALUE, as in --conf spark.driver.memory=4g, not {text!r}")
        found[name.strip()] = value
    return found | ({} if remote is None else {REMOTE: remote})


__all__ = ["QuietSession", "SessionOf", "settings_of"]
