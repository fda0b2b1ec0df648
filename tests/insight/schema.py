"""The part of JSON Schema that docs/reference/inspecting.schema.json uses. Other keywords are errors."""

from __future__ import annotations

from typing import Any

KNOWN = {"$schema", "title", "description", "type", "properties", "required", "additionalProperties", "items", "const", "anyOf"}
TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None),
}  # fmt: skip


def wrong(value: Any, schema: dict[str, Any], where: str = "") -> list[str]:
    """Return the parts of a document that violate the schema."""
    assert schema.keys() <= KNOWN, f"{where}: this reader does not know {schema.keys() - KNOWN}"
    if "anyOf" in schema:
        tried = [wrong(value, each, where) for each in schema["anyOf"]]
        return [] if [] in tried else tried[-1]
    if "const" in schema:
        return [] if value == schema["const"] else [f"{where}: {value!r} is not {schema['const']!r}"]
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    is_bool = isinstance(value, bool)
    if not any(isinstance(value, TYPES[kind]) and (kind == "boolean") == is_bool for kind in kinds):
        return [f"{where}: {value!r} is no {' or '.join(kinds)}"]
    if isinstance(value, list):
        return [each for place, element in enumerate(value) for each in wrong(element, schema["items"], f"{where}[{place}]")]
    return _wrong_in_object(value, schema, where) if isinstance(value, dict) and "properties" in schema else []


def _wrong_in_object(value: dict[str, Any], schema: dict[str, Any], where: str) -> list[str]:
    known, missing = schema["properties"], [name for name in schema["required"] if name not in value]
    found = [f"{where}.{name} is missing" for name in missing]
    found += [f"{where}.{name} is not in the schema" for name in value if name not in known]
    return found + [each for name in value if name in known for each in wrong(value[name], known[name], f"{where}.{name}")]
