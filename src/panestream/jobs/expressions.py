"""SQL texts of a job file are expressions over the columns of a row: what reaches beyond the row is refused before Spark sees it.

Spark's expressions can call any static method of Java's (``reflect``), read other tables and files (a subquery), read a file of
descriptors (``from_protobuf``), and Spark's parser puts settings, properties and environment variables in the place of ``${…}``.
None of that is a value of a row. The text is cut into tokens as Spark cuts it. Where a setting decides how (whether a backslash
ends a string), both ways are looked at, and what would be cut in a third way (comments, ``$``) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_BEYOND = {
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), "calls methods of Java's"),
    **dict.fromkeys(("from_protobuf", "to_protobuf"), "reads a file of descriptors"),
    **dict.fromkeys(("from_avro", "to_avro", "schema_of_avro"), "may read a schema from elsewhere"),
    "identifier": "makes a name of a text",
}
"""Functions that reach beyond the row, and how."""
_QUERY = {"values", "table", "from", "with", "map", "reduce"}
"""Words that begin a query behind a bracket, beside ``SELECT``; each may be the name of a column as well."""
_AFTER_NAME = {")", ",", ".", "", "=", "<", ">", "!", "+", "-", "*", "/", "%", "|", "&", "^", "[", ":", "is", "in", "between"}
_AFTER_NAME |= {"and", "or", "like", "rlike", "not", "div"}
"""What follows a column in an expression, and no word that begins a query."""
_NAME = r"[^\W\d]\w*|\d+[^\W\d]\w*"
_STRINGS = {
    True: r"[rR]'[^']*'|[rR]\"[^\"]*\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"",
    False: r"'[^']*'|\"[^\"]*\"",
}
_TOKENS = {
    backslash: re.compile(
        rf"(?P<string>{strings})|(?P<quoted>`(?:[^`]|``)*`)|(?P<comment>--|/\*)|(?P<name>{_NAME})|(?P<other>\S)", re.DOTALL
    )
    for backslash, strings in _STRINGS.items()
}


class _Token(NamedTuple):
    kind: str
    text: str


def beyond_row(sql: str) -> str | None:
    """What of a SQL text reaches beyond the row, in words that follow the name of its key; None: nothing does.

    >>> beyond_row("sum(price * quantity)"), beyond_row("lower(trim(BOTH FROM city))"), beyond_row("max(values)")
    (None, None, None)
    >>> print(beyond_row("reflect('java.lang.System', 'getenv', 'HOME')"))
    must be an expression over the columns of a row: reflect() calls methods of Java's
    >>> print(beyond_row("price > (SELECT avg(price) FROM shop.items)"))
    must be an expression over the columns of a row: SELECT is a query of its own. Join before, in a table that the job reads
    """
    if "${" in sql:
        return _told("Spark puts settings and environment variables in the place of ${...}")
    for backslash in (True, False):
        tokens = list(_tokens(sql, backslash))
        for place, token in enumerate(tokens):
            before = tokens[place - 1] if place else _Token("", "")
            after = tokens[place + 1] if place + 1 < len(tokens) else _Token("", "")
            found = _wrong(before, token, after)
            if found is not None:
                return _told(found)
    return None


def _told(what: str) -> str:
    return f"must be an expression over the columns of a row: {what}"


def _tokens(sql: str, backslash: bool) -> Iterator[_Token]:
    for match in _TOKENS[backslash].finditer(sql):
        yield _Token(str(match.lastgroup), match.group())


def _wrong(before: _Token, token: _Token, after: _Token) -> str | None:
    if token.kind == "comment":
        return f"it has a comment ({token.text}); write it behind a # on a line of its own in the job file"
    if token.text == "$":
        return "$ has no meaning in it outside of a string"
    # A name may be quoted in either way, and a function all the same.
    name = token.text.strip('`"').lower()
    if token.kind != "other" and after.text == "(" and name in _BEYOND:
        return f"{name}() {_BEYOND[name]}"
    if token.kind != "name":
        return None
    query = "is a query of its own. Join before, in a table that the job reads"
    if name in ("select", "using"):
        return f"{name.upper()} {query}" if name == "select" else "USING hands rows to a command"
    if name in _QUERY and before.text == "(" and not _is_column(name, after):
        return f"{name.upper()} {query}"
    return None


def _is_column(name: str, after: _Token) -> bool:
    """Whether a word that could begin a query is a column, or a function: by what follows it."""
    if after.text == "(":
        return name in ("map", "reduce")
    return after.kind not in {"string", "quoted"} and after.text.lower() in _AFTER_NAME


__all__ = ["beyond_row"]
