"""Faulty job files. ``docs/reference/bad-input.md`` shows the error of each."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from panestream.errors import JobError
from panestream.jobs.loading import load_job
from panestream.jobs.runner import check_paths, find_function
from tests.bad_input.room import plain

JOB = """\
key = ["user"]

[source]
format = "csv"
path = "in"
schema = "user STRING, at TIMESTAMP, n BIGINT"

[event_time]
column = "at"

[watermark]
delay = "5 seconds"

[window]
type = "tumbling"
size = "1 minute"

[[aggregate]]
function = "sum"
column = "n"
alias = "total"

[sinks.main]
format = "parquet"
path = "out"
"""


@dataclass(frozen=True)
class JobFile:
    """A job file with a mistake.

    Attributes:
        name: the mistake, as named in the page.
        text: the content, or None if there is no file.
        called: the name of the file.
        beside: other files in the same folder.
    """

    name: str
    text: str | bytes | None
    called: str = "job.toml"
    beside: Mapping[str, str] = field(default_factory=dict)

    def errors_in(self, folder: Path) -> str:
        """Return the errors before Spark starts, one a line, in an empty folder."""
        (folder / "in").mkdir()
        for name, text in self.beside.items():
            (folder / name).write_text(text)
        path = folder / self.called
        if self.text is not None:
            path.write_bytes(self.text if isinstance(self.text, bytes) else self.text.encode())
        try:
            loaded = load_job(path)
            check_paths(loaded)
            find_function(loaded)
        except JobError as error:
            return "; ".join(f"`{_shown(line, folder)}`" for line in str(error).splitlines())
        finally:
            for name in self.beside:
                sys.modules.pop(name.removesuffix(".py"), None)
        return "nothing"


def _shown(line: str, folder: Path) -> str:
    """Return an error without the file name that all errors share."""
    line = re.sub(r"^job\.\w+:(\d+): ", r"line \1: ", line.replace(f"{folder}/", ""))
    return plain(re.sub(r"^job\.\w+: ", "", line))


def job_with(old: str, new: str) -> str:
    assert JOB.count(old) == 1, old
    return JOB.replace(old, new)


_APPLY = job_with(
    '[[aggregate]]\nfunction = "sum"\ncolumn = "n"\nalias = "total"', '[apply]\nfunction = "{}"\nschema = "n BIGINT"'
)
_YAML = "source: &a {format: csv}\nother: *a\n"

_SIDE = """\
[{0}]
key = "user"

[{0}.source]
format = "csv"
path = "in"
schema = "user STRING, at TIMESTAMP, n BIGINT"

[{0}.event_time]
column = "at"

[{0}.watermark]
delay = "5 seconds"

"""
_LEFT, _RIGHT = _SIDE.format("left"), _SIDE.format("right")
_REST = '[sinks.main]\nformat = "parquet"\npath = "out"\n'
_HOUR = '[window]\ntype = "tumbling"\nsize = "1 hour"\n\n'

JOB_FILES = (
    JobFile("no such file", None),
    JobFile("neither TOML nor YAML by its name", JOB, "job.json"),
    JobFile("not UTF-8", b"a = 1\nb = '\xe9'\n"),
    JobFile("empty", ""),
    JobFile("YAML with aliases", _YAML, "job.yaml"),
    JobFile("YAML that would make an object", "!!python/object/apply:os.system ['true']\n", "job.yaml"),
    JobFile("a key that nobody knows", job_with('delay = "5', 'delai = "5')),
    JobFile("a key in the wrong section", 'delay = "5 seconds"\n' + JOB),
    JobFile("another type: a number for a list", job_with('["user"]', "3")),
    JobFile("another type: words for a number", job_with('path = "in"', 'path = "in"\nfiles_per_batch = "ten"')),
    JobFile("another type: a number for a duration", job_with('size = "1 minute"', "size = 60")),
    JobFile("a duration that cannot be read", job_with('"1 minute"', '"1 fortnight"')),
    JobFile("a function that nobody knows", job_with('"sum"', '"summ"')),
    JobFile("what a function needs is missing", job_with('column = "n"\n', "")),
    JobFile("a window without its size", job_with('size = "1 minute"\n', "")),
    JobFile("the same column twice", job_with('["user"]', '["user", "user"]')),
    JobFile("input that is not there", job_with('path = "in"', 'path = "inn"')),
    JobFile("a path out of the folder", job_with('path = "out"', 'path = "../out"')),
    JobFile("an expression that reads a file", job_with('column = "n"', 'column = "(SELECT max(x) FROM csv.`/etc/hosts`)"')),
    JobFile("an expression that calls Java", job_with('column = "n"', "column = \"reflect('java.lang.System', 'exit', 0)\"")),
    JobFile(
        "a user function that is missing",
        _APPLY.format("bad_one:count"),
        beside={"bad_one.py": "def counts(*_): ...\n"},
    ),
    JobFile("a user module that fails", _APPLY.format("bad_two:count"), beside={"bad_two.py": "1 / 0\n"}),
    JobFile("a join of one stream", _LEFT + _HOUR + "[join]\n\n" + _REST),
    JobFile("a kind of join that nobody knows", _LEFT + _RIGHT + _HOUR + '[join]\nhow = "lft"\n\n' + _REST),
    JobFile("a key too many", _LEFT + _RIGHT.replace('"user"', '["user", "n"]', 1) + _HOUR + "[join]\n\n" + _REST),
    JobFile(
        "an interval that ends before it begins",
        _LEFT + _RIGHT + '[interval_join]\nlower = "1 hour"\nupper = "-1 hour"\n\n' + _REST,
    ),
    JobFile(
        "an interval join with windows",
        _LEFT + _RIGHT + _HOUR + '[interval_join]\nlower = "-1 hour"\nupper = "0 seconds"\n\n' + _REST,
    ),
    JobFile(
        "a join into a table of one row for each key",
        _LEFT + _RIGHT + _HOUR + '[join]\n\n[sinks.main]\nformat = "merge"\ntable = "t"\n',
    ),
    JobFile("tiles of sessions", job_with("[[aggregate]]", "[[panes]]").replace('"tumbling"\nsize', '"session"\ngap')),
    JobFile("three mistakes", job_with('"csv"', "7").replace("delay =", "delai =").replace('"parquet"', '"parket"')),
)
