"""Translates messages of the Python library into the terms of job files."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from panestream.errors import InvalidEventTimeError, PanestreamWarning
from panestream.jobs.loading import LoadedJob

WORDS: Mapping[str, str] = {
    "with .side_output_invalid(tag)": "with event_time.invalid = 'side_output' and a [sinks.invalid]",
    "keep them with .side_output_late_data('late') and start(late=...)": "keep them in a [sinks.late]",
    "more delay of the watermark, .allowed_lateness(...)": "more watermark.delay, or allowed_lateness",
    " (Said once for each start; the counts of every micro-batch are in query.recent_progress.)": "",
}
"""Phrases of the library's messages, with their equivalents in a job file."""

FORMS: Mapping[str, str] = {
    r"\.key_by\('(.*?)'\)": r"key = '\1'",
    r"\.pairs\(suffixes=\('', '_right'\)\), or rename one before pst\.stream\(df\), df\.withColumnRenamed\((.*?), \.\.\.\)": (
        r"right_suffix = '_right', or rename one by source.select"
    ),
    r"rename it before pst\.stream\(df\)": "rename it by source.select",
}
"""Patterns of phrases with variable parts, with their equivalents in a job file."""


def in_job_words(text: str) -> str:
    """Translate a message of the library for the author of a job file.

    >>> in_job_words("Filter such rows out, or route them to an output with .side_output_invalid(tag)")
    "Filter such rows out, or route them to an output with event_time.invalid = 'side_output' and a [sinks.invalid]"
    """
    for python, job in WORDS.items():
        text = text.replace(python, job)
    for python, job in FORMS.items():
        text = re.sub(python, job, text)
    return text


@contextmanager
def translate_messages(loaded: LoadedJob, tell: Callable[[str], object]) -> Generator[None]:
    """Pass warnings to ``tell`` while a job runs; raise a ``JobError`` at the key for rows without a usable event time."""
    shown = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: object) -> None:
        if issubclass(category, PanestreamWarning):
            tell(in_job_words(str(message)))
        else:
            shown(message, category, *where)  # type: ignore[arg-type]

    with warnings.catch_warnings():
        warnings.simplefilter("always", PanestreamWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        try:
            yield
        except InvalidEventTimeError as error:
            # With two streams, the error names the column but not the side.
            place = loaded.place("event_time") if loaded.job.left is None else loaded.place()
            place.note(in_job_words(str(error)))
            place.finish()
            raise
