"""Places of outputs, compared: whether two are the same or one is inside the other. Does not import Spark."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from panestream.errors import PanestreamError, SinkError

FilePath = str | os.PathLike[str]
"""A path as users write it: text or a :class:`pathlib.Path`, which can only represent local paths."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_GLOB = re.compile(r"([*?\[\]{}\\])")
_PATTERN = re.compile(r"(?<!\\)[*?\[\]{}]")
_PLAIN = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/[\w./@:+=-]*", re.ASCII)


def path_of(given: object, what: str, error: type[PanestreamError]) -> str:
    """Return a path as text, or raise ``error`` if Spark would not accept the value. The message begins with ``what``.

    >>> path_of(Path("out") / "late", "a sink needs a folder", SinkError), path_of("s3://bucket/out", "a sink", SinkError)
    ('out/late', 's3://bucket/out')
    >>> path_of(Path("s3://bucket/out"), "a sink needs a folder", SinkError)
    Traceback (most recent call last):
        ...
    panestream.errors.SinkError: a sink needs a folder; pathlib has made 's3:/bucket/out' of an address: give it as a string
    """
    path = given if isinstance(given, str) else os.fspath(given) if isinstance(given, os.PathLike) else None
    if not isinstance(path, str) or not path.strip() or any(ord(letter) < 32 for letter in path):
        raise error(f"{what}; got {given!r}")
    if path is not given and _SCHEME.fullmatch(path):
        raise error(f"{what}; pathlib has made {path!r} of an address: give it as a string")
    return path


def file_place(path: str) -> str:
    """Normalize a folder's path: the scheme, slashes, ``..`` and links of a local file system.

    >>> file_place("file:///data/out/") == file_place("/data//x/../out") == "file:/data/out"
    True
    >>> file_place("S3A://bucket/out/")
    's3a://bucket/out'
    """
    uri = _SCHEME.fullmatch(path.strip())
    scheme, rest = (uri.group(1).lower(), uri.group(2)) if uri else ("file", path.strip())
    if scheme == "file":
        rest = os.path.realpath(re.sub("^//[^/]*(?=/)", "", rest) if uri else rest)
        return "file:" + rest
    authority, slash, inner = rest.removeprefix("//").partition("/")
    return f"{scheme}://{authority.lower()}{posixpath.normpath('/' + inner.lstrip('/')) if slash else ''}".rstrip("/")


def local_folder(uri: str) -> Path | None:
    """Return the folder of a URI, or None if it is not on a local file system.

    >>> local_folder("file:///data/a%20b/out").as_posix(), local_folder("hdfs://host/out")
    ('/data/a b/out', None)
    """
    split = _SCHEME.fullmatch(uri)
    if split is None or split.group(1).lower() != "file":
        return None
    return Path(unquote(re.sub("^//[^/]*(?=/)", "", split.group(2))))


def escaped(path: str) -> str:
    r"""Escape a path for Spark's readers, which interpret ``[``, ``{``, ``*`` and ``?`` as patterns.

    >>> print(escaped("out/[a]"))
    out/\[a\]
    """
    return _GLOB.sub(r"\\\1", path)


def without_pattern(path: str) -> str:
    r"""Return the path up to the first folder whose name is a pattern. ``path`` has other names as :func:`escaped` gives them.

    >>> without_pattern(r"/out/\[a\]/runs/{1,2}-*/part-*"), without_pattern("/out/runs")
    ('/out/[a]/runs', '/out/runs')
    """
    fixed = _PATTERN.split(path, maxsplit=1)[0]
    return re.sub(r"\\(.)", r"\1", fixed if fixed == path else fixed.rpartition("/")[0])


def is_plain(path: str) -> bool:
    """Return whether an absolute path is identical to its URI, without any encoded character.

    >>> is_plain("s3://bucket/a"), is_plain("/data/a b"), is_plain("data")
    (True, False, False)
    """
    return _PLAIN.fullmatch(path) is not None


def check_apart(places: Mapping[str, str], checkpoint: str | None = None) -> None:
    """Raise SinkError if two outputs have one place, or if readers of one folder would find the files of another.

    ``places`` has the result of :meth:`Sink.place` by output, if the output has one.

    >>> check_apart({"main": "file:/out", "late": "file:/out/_late"})
    >>> check_apart({"main": "file:/out", "late": "file:/out/late"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    panestream.errors.SinkError: the outputs 'main' and 'late' are nested (file:/out, file:/out/late): readers...
    """
    outputs = list(places.items())
    for position, (tag, place) in enumerate(outputs):
        for other, other_place in outputs[:position]:
            if place == other_place:
                raise SinkError(
                    f"the outputs {other!r} and {tag!r} have one place, {place}: each would replace or hide the other's rows. "
                    "Give each output its own place"
                )
            _refuse_nested(f"the outputs {other!r} and {tag!r}", other_place, place)
        if checkpoint is not None:
            _refuse_nested(f"the output {tag!r} and the checkpoint", place, file_place(checkpoint))


def is_below(inner: str, outer: str) -> bool:
    """Return whether readers of the outer folder find the files of the inner one. Both are results of :func:`file_place`.

    >>> is_below("file:/out/late", "file:/out"), is_below("file:/out/_late", "file:/out"), is_below("file:/out", "file:/out")
    (True, False, False)
    """
    below = inner.removeprefix(outer.rstrip("/") + "/")
    return below != inner and not is_hidden(below)


def is_hidden(path: str) -> bool:
    """Return whether Spark ignores a path because of its name below the folder that is read."""
    return path.startswith(("_", "."))


def _refuse_nested(who: str, one: str, other: str) -> None:
    if one == other or is_below(one, other) or is_below(other, one):
        raise SinkError(
            f"{who} are nested ({one}, {other}): readers of the outer folder would find files of the inner folder. Put them "
            f"side by side"
        )
