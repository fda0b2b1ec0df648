"""Checks of events against OpenLineage's published JSON Schemas and our own, without a network."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from jsonschema import Draft202012Validator
from referencing import Registry, Resource

HERE = Path(__file__).parent
FILES = [*sorted((HERE / "schemas").glob("*.json")), HERE.parents[2] / "docs" / "reference" / "openlineage.schema.json"]
SCHEMAS = {schema["$id"]: schema for schema in (json.loads(path.read_text("utf-8")) for path in FILES)}
REGISTRY = Registry().with_resources((name, Resource.from_contents(schema)) for name, schema in SCHEMAS.items())


def faults(event: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with an event and with each of its facets, by the schemas that they name."""
    run, job = event["run"], event["job"]
    holders = [run.get("facets"), job.get("facets")]
    for dataset in [*event["inputs"], *event["outputs"]]:
        holders += [dataset.get(kind) for kind in ("facets", "inputFacets", "outputFacets")]
    facets = [(name, facet) for holder in holders for name, facet in (holder or {}).items()]
    checked = [("event", event["schemaURL"], event), *((name, facet["_schemaURL"], facet) for name, facet in facets)]
    return [f"{name}: {error.message}" for name, url, value in checked for error in _errors(url, value)]


def _errors(url: str, value: Any) -> list[Any]:
    validator = Draft202012Validator({"$ref": url}, registry=REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return list(validator.iter_errors(value))
