"""What the library says to those who write Python, in the words of job files."""

from __future__ import annotations

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
"""What the library says, and what a job file has for it."""


def in_job_words(text: str) -> str:
    """A message of the library's, for somebody who wrote a job file.

    >>> in_job_words("Filter such rows out, or route them to an output with .side_output_invalid(tag)")
    "Filter such rows out, or route them to an output with event_time.invalid = 'side_output' and a [sinks.invalid]"
    """
    for python, job in WORDS.items():
        text = text.replace(python, job)
    return text


@contextmanager
def told_of_job(loaded: LoadedJob, tell: Callable[[str], object]) -> Generator[None]:
    """While a job runs: what is wrong with its rows is told with the line of its key, and warnings are told by ``tell``.

    Raises:
        JobError: rows have no usable event time.
    """
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
            place = loaded.place("event_time")
            place.note(in_job_words(str(error)))
            place.finish()
            raise
