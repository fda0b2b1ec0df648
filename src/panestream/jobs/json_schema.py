"""``panestream schema``: the JSON Schema of job files, with which editors complete keys and mark mistakes.

The schema is derived from the model that checks the files, so editors know every new key. It contains the rules between keys
of one table (kinds of windows, formats of sinks). ``panestream explain`` checks the others.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from panestream.engine.runtime.sides import SIDES
from panestream.jobs.model import FUNCTIONS_OF_ROWS, OF_TWO, Job
from panestream.jobs.schema import accepted
from panestream.jobs.sinks import FORMATS, SinkSection
from panestream.jobs.windows import COUNTED, NEEDS, TAKES, WindowSection

ADDRESS = "https://json.schemastore.org/panestream-job.json"
"""The address by which other schemas refer to this one, where SchemaStore publishes it."""
ABOUT = "A windowed query over a stream or a batch for panestream run: source, event time, windows, aggregates and sinks."
DIALECT = "http://json-schema.org/draft-07/schema#"
"""The newest dialect that the language servers of both TOML and YAML support."""


def job_schema() -> dict[str, Any]:
    """Return the schema of a whole job file.

    >>> job_schema()["definitions"]["TopSection"]["required"]
    ['n', 'by']
    """
    definitions: dict[str, Any] = {}
    top = _resolved({"$ref": Job}, definitions)
    about = {"title": "A job file of panestream", "description": ABOUT}
    return {"$schema": DIALECT, "$id": ADDRESS, **about, **top, "definitions": dict(sorted(definitions.items()))}


def described(cls: type) -> dict[str, str]:
    """Return the description of each key from the docstring of a section."""
    return dict(_described(inspect.getdoc(cls) or ""))


def _described(text: str) -> Iterator[tuple[str, str]]:
    attributes = text.partition("Attributes:\n")[2]
    for entry in re.split(r"\n(?=    \S)", attributes):
        name, _, words = entry.strip().partition(": ")
        yield name, " ".join(words.split())


def _resolved(shape: Any, definitions: dict[str, Any]) -> Any:
    """Replace the classes in a shape by references, and add them to the definitions."""
    if isinstance(shape, Mapping):
        return {name: _resolved(each, definitions) for name, each in shape.items()}
    if isinstance(shape, list):
        return [_resolved(each, definitions) for each in shape]
    if not isinstance(shape, type):
        return shape
    if shape.__name__ not in definitions:
        definitions[shape.__name__] = None  # reserved: a shape may refer to itself
        made = _section(shape) if dataclasses.is_dataclass(shape) else shape.accepts  # type: ignore[attr-defined]
        definitions[shape.__name__] = _resolved(made, definitions)
    return f"#/definitions/{shape.__name__}"


def _section(cls: type[Any]) -> dict[str, Any]:
    words = described(cls)
    made: dict[str, Any] = {
        "type": "object",
        "description": (inspect.getdoc(cls) or "").partition("\n")[0],
        "properties": {each.name: _key(each, words.get(each.name)) for each in dataclasses.fields(cls)},
        "additionalProperties": False,
        "required": [
            each.name for each in dataclasses.fields(cls) if each.default is each.default_factory is dataclasses.MISSING
        ],
    }
    rules = _RULES[cls]() if cls in _RULES else []
    return {**made, "allOf": rules} if rules else made


def _key(each: dataclasses.Field[Any], words: str | None) -> dict[str, Any]:
    shape = accepted(each.metadata["reader"])
    # Validators ignore all keywords next to a reference.
    made: dict[str, Any] = {"allOf": [shape]} if "$ref" in shape else dict(shape)
    if words:
        made["description"] = words
    if each.default not in (None, (), dataclasses.MISSING):
        made["default"] = each.default
    return made


def _where(key: str, value: str, then: Mapping[str, Any]) -> dict[str, Any]:
    return {"if": {"properties": {key: {"const": value}}, "required": [key]}, "then": then}


def _kinds_of_windows() -> list[dict[str, Any]]:
    rules = []
    for kind, keys in TAKES.items():
        extent = {"type": "integer" if kind in COUNTED else "string"}
        sizes = {key: extent for key in ("size", "slide") if key in keys}
        # Any window may state that its time is the event time.
        names = ["type", *keys, *([] if "time" in keys else ["time"])]
        then = {"required": [*NEEDS[kind]], "properties": sizes, "propertyNames": {"enum": names}}
        rules.append(_where("type", kind, then))
    return rules


def _formats_of_sinks() -> list[dict[str, Any]]:
    rules = []
    for name, kind in FORMATS.items():
        place = [] if kind.needs is None else [kind.needs]
        servers = ["servers"] if name == "kafka" else []
        keys = ["format", *place, *kind.takes]
        # An empty table of options is allowed for every format.
        none = {} if "options" in kind.takes else {"options": {"maxProperties": 0}}
        then = {"required": place + servers, "properties": none, "propertyNames": {"enum": [*keys, *none]}}
        rules.append(_where("format", name, then))
    return rules


def _whole_job() -> list[dict[str, Any]]:
    both: dict[str, Any] = {"required": [*SIDES]}
    return [
        {"anyOf": [{"required": [name]} for name in ("window", "windows", "interval_join")]},
        {"oneOf": [{"required": [name]} for name in FUNCTIONS_OF_ROWS]},
        {"oneOf": [{"required": ["source"]}, both]},
        *({"if": {"required": [name]}, "then": both} for name in OF_TWO),
    ]


_RULES = {WindowSection: _kinds_of_windows, SinkSection: _formats_of_sinks, Job: _whole_job}

__all__ = ["described", "job_schema"]
