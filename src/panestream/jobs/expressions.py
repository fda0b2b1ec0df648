"""Checks that SQL texts of a job file are expressions over the columns of a row, before Spark sees them.

The text is split into tokens as in Spark's lexer, and each token must be known: ASCII words, quoted names, literals, operators.
A word before a bracket must be a keyword or a function of :mod:`panestream.jobs.sql_functions`, and no word may start a query.
Session settings decide where a string ends (whether backslashes escape, whether double quotes mark names). The text must pass
under each setting, unless a quote stays open, since such a session refuses the text. Letters outside ASCII must be quoted:
Java folds some of them to ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from panestream.jobs.sql_functions import ALLOWED

_QUERY = {"select", "table", "values", "with", "using", "union", "intersect", "except", "minus", "from"}
"""Every query over a table contains at least one of these words, however it starts."""
_TAKES_FROM = {"extract", "trim", "btrim", "ltrim", "rtrim", "substring", "substr", "overlay"}
_KEYWORDS = """
    all and any between by case distinct div else escape exists filter from group ilike in interval is like not or order over
    partition regexp rlike some then when where
    char character dec decimal numeric time timestamp varchar
"""
_BEFORE_BRACKET = frozenset(_KEYWORDS.split())
"""Keywords, and types with a length, which are not functions."""
_TAKES_TYPES = {"from_json": 1, "from_csv": 1, "variant_get": 2, "try_variant_get": 2}
"""Functions with a text argument of types, and the position of this argument."""
_TYPES = re.compile(r"'[^{}\\']*'|\"[^{}\\\"]*\"")
"""Types as DDL. JSON types have braces and may contain defaults, which Spark parses as SQL."""
_MAX_BRACKETS = 100
"""Spark's parser recurses for each bracket, and its stack is limited."""
_STRING = {True: r"{0}(?:[^{0}\\]|\\.)*{0}", False: r"{0}[^{0}]*{0}"}
"""The pattern of a string, by whether a backslash escapes a quote."""


def _tokens_of(single: bool, double: bool) -> re.Pattern[str]:
    strings = "|".join(
        ["[rR]'[^']*'", r"[rR]\"[^\"]*\"", _STRING[single].replace("{0}", "'"), _STRING[double].replace("{0}", '"')]
    )
    return re.compile(
        rf"[ \t\r\n]*(?:(?P<quoted>{strings}|`(?:[^`]|``)*`)|(?P<comment>--|/\*)|(?P<word>[A-Za-z0-9_]+)"
        r"|(?P<operator>[-()\[\],.+*/%=<>!|&^~:])|(?P<other>\S)|$)",
        re.DOTALL,
    )


_READINGS = (_tokens_of(single=True, double=True), _tokens_of(single=True, double=False), _tokens_of(single=False, double=False))


_NO_TOKENS = frozenset("'\"`\\")
"""No token of Spark starts with a backslash or an unclosed quote."""


class _Token(NamedTuple):
    kind: str
    text: str


def beyond_row(sql: str) -> str | None:
    """Return why a SQL text is more than an expression over a row, in words that follow the name of its key, or None.

    >>> beyond_row("sum(price * quantity)"), beyond_row("lower(trim(BOTH FROM city))"), beyond_row("max(`values`)")
    (None, None, None)
    >>> print(beyond_row("reflect('java.lang.System', 'getenv', 'HOME')"))
    must be an expression over the columns of a row: reflect() is not a function that SQL of a job file may call. Call it in a \
view that the job reads
    >>> print(beyond_row("price > (SELECT avg(price) FROM shop.items)"))
    must be an expression over the columns of a row: SELECT begins a query. Join in a table that the job reads; a column of that \
name stands in backticks
    """
    if "${" in sql:
        return _refused("Spark puts settings and environment variables in the place of ${...}")
    for reading in _READINGS:
        tokens = list(_tokens(sql, reading))
        if reading is not _READINGS[0] and tokens and tokens[-1].text in _NO_TOKENS:
            continue
        why = _wrong(tokens)
        if why is not None:
            return _refused(why)
    return None


def _refused(why: str) -> str:
    return f"must be an expression over the columns of a row: {why}"


def _tokens(sql: str, reading: re.Pattern[str]) -> Iterator[_Token]:
    for match in reading.finditer(sql):
        if match.lastgroup is not None:
            yield _Token(match.lastgroup, match[match.lastgroup])
            if match.lastgroup in ("comment", "other"):
                return  # refused anyway, and the text after an open quote would be searched again for each letter


def _wrong(tokens: list[_Token]) -> str | None:
    owners: list[str] = []  # the word before each open bracket
    commas: list[int] = []  # the number of completed arguments in each open bracket
    before = _Token("", "")
    for place, token in enumerate(tokens):
        why = _wrong_token(token, before, owners)
        if why is None and token.text == "(":
            why = _wrong_call(before, tokens[place - 2] if place > 1 else before)
            owners.append(_name(before))
            commas.append(0)
        elif token.text == ")" and owners:
            owners.pop()
            commas.pop()
        elif token.text == "," and owners:
            commas[-1] += 1
            if _TAKES_TYPES.get(owners[-1]) == commas[-1]:
                why = _wrong_type(owners[-1], tokens[place + 1 : place + 3])
        if why is not None:
            return why
        before = token
    return None


def _wrong_token(token: _Token, before: _Token, owners: list[str]) -> str | None:
    """Return why a token is refused in any position, or None."""
    word = token.text.lower()
    if token.kind == "comment":
        return f"it has a comment ({token.text}); write it behind a # on a line of its own in the job file"
    if token.kind == "other":
        unclosed = ", and a quote does not end" if token.text in "'\"`" else ""
        return f"{token.text!a} has no meaning in it outside of quotes{unclosed}"
    if token.kind == "word" and word in _QUERY and not _is_harmless(word, before, owners):
        return f"{word.upper()} begins a query. Join in a table that the job reads; a column of that name stands in backticks"
    return f"it has more than {_MAX_BRACKETS} open brackets" if len(owners) > _MAX_BRACKETS else None


def _wrong_type(function: str, argument: list[_Token]) -> str | None:
    text, end = (*argument, _Token("", ""), _Token("", ""))[:2]
    if _TYPES.fullmatch(text.text) and end.text in (",", ")"):
        return None
    return f"{function}() takes types as plain text, such as 'a INT, b STRING' (in JSON they may hold SQL of their own)"


def _is_harmless(word: str, before: _Token, owners: list[str]) -> bool:
    """Return whether a query word is harmless here: ``place.table``, ``extract(year FROM at)``, ``IS DISTINCT FROM``."""
    if before.text == ".":
        return True
    return word == "from" and (before.text.lower() == "distinct" or bool(owners and owners[-1] in _TAKES_FROM))


def _name(token: _Token) -> str:
    return (token.text.lstrip("rR")[1:-1] if token.kind == "quoted" else token.text).lower()


def _wrong_call(name: _Token, before: _Token) -> str | None:
    """Return why a bracket must not follow a token, or None."""
    if name.kind not in ("word", "quoted"):
        return None
    function = _name(name)
    if before.text == ".":
        return f"{ascii(function)[1:-1]}() is called by more than its plain name. Call it in a view that the job reads"
    if function in ALLOWED or (name.kind == "word" and function in _BEFORE_BRACKET):
        return None
    return f"{ascii(function)[1:-1]}() is not a function that SQL of a job file may call. Call it in a view that the job reads"


__all__ = ["beyond_row"]
