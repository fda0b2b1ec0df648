"""Changes to the manifest of a savepoint of panes that no real savepoint has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def setting(field: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change that sets a field to a value."""
    return lambda told: told.__setitem__(field, value)


HARM: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "a table outside": lambda told: told["tables"].update({"../../../etc": 1}),
    "a table that is none": lambda told: told["tables"].update(secrets=1),
    "no table": setting("tables", {}),
    "a count that is none": setting("tables", {"panes": "1; DROP"}),
    "sources outside": setting("sources", [{"number": "../../x", "kind": "files", "offset": '{"logOffset":0}', "files": 1}]),
    "a source that is none": setting("sources", [3]),
    "a file outside": setting("checksums", {"panes": {"../../x": [1, "1"]}}),
    "a checksum that is none": setting("checksums", {"panes": {"part": [1, [2]]}}),
    "a name that is a path": setting("name", "../../x"),
    "an identity that is a path": lambda told: told["succession"].update(queries=["../../x"]),
    "a succession that is a list": setting("succession", ["x"]),
    "sources that are no list": setting("sources", "x"),
    "no headers": setting("headers", []),
    "headers that are none": setting("headers", ["x"]),
    "a plan that is none": setting("saved_plan", {"format": 1}),
    "a plan of another class": lambda told: told["saved_plan"]["operator"].update(aggregates={"is": "os.system"}),
    "no plan": lambda told: told.pop("saved_plan"),
}
