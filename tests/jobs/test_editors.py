"""The JSON Schema of job files accepts every job file that the library accepts (conftest.py checks this in all these tests). It
rejects mistakes that an editor should mark.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from panestream.jobs import cli
from panestream.jobs.document import load_document
from panestream.jobs.json_schema import job_schema
from panestream.jobs.loading import load_job
from panestream.jobs.model import Job

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))


@pytest.fixture(scope="module")
def good():
    return load_document(next(path for path in EXAMPLES if path.name == "rolling_revenue.toml")).data


def test_schema_command_prints_the_schema(validator):
    result = CliRunner().invoke(cli.app, ["schema"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == job_schema()
    validator.check_schema(job_schema())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_job_file_follows_the_schema(path):
    load_job(path)  # conftest.py checks it against the schema
    assert len(EXAMPLES) >= 7


def test_schema_has_every_key_with_description_and_default():
    definitions = job_schema()["definitions"]
    assert set(definitions["Job"]["properties"]) == {each.name for each in dataclasses.fields(Job)}
    assert definitions["WindowSection"]["properties"]["time"] == {
        "enum": ["event", "processing"],
        "default": "event",
        "description": '"event", or "processing" for the clock.',
    }
    assert definitions["KafkaSource"]["properties"]["idle_after"]["default"] == "5 minutes"
    assert definitions["Job"]["properties"]["changelog"]["default"] is False
    for name, each in definitions.items():
        if name not in ("SectionSettings", "OneAggregate"):
            assert each["additionalProperties"] is False, name
    # Only sections that contain sections may have no description.
    silent = [
        f"{name}.{key}"
        for name, each in definitions.items()
        for key, said in each.get("properties", {}).items()
        if name not in ("Job", "Sinks", "OneAggregate") and "description" not in said
    ]
    assert silent == ["SourceSection.kafka"]


def _with(data, path, value):
    changed = copy.deepcopy(dict(data))
    inside = changed
    for name in path[:-1]:
        inside = inside.setdefault(name, {}) if isinstance(inside, dict) else inside[name]
    if value is None:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return changed


SESSION = {"type": "session", "gap": "5 minutes"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("mood",), "good"),
        (("mode",), "strem"),
        (("key_groups",), 0),
        (("key_groups",), 1.5),
        (("key_groups",), True),
        (("changelog",), "yes"),
        (("allowed_lateness",), 90),
        (("allowed_lateness",), "soon"),
        (("source", "format"), None),
        (("source", "shcema"), "a INT"),
        (("source", "columns"), {"1st": "a"}),
        (("source", "options"), {"a": [1]}),
        (("sinks",), None),
        (("sinks", "man"), {"format": "console"}),
        (("sinks", "main"), {"format": "parquet"}),
        (("sinks", "main"), {"format": "parquet", "table": "t"}),
        (("sinks", "main"), {"format": "console", "path": "p"}),
        (("sinks", "main"), {"format": "kafka", "topic": "t"}),
        (("sinks", "main"), {"format": "merge", "table": "t", "options": {"a": "b"}}),
        (("sinks", "main"), {"format": "table", "table": "a.b.c.d"}),
        (("windows",), None),
        (("windows", "w"), {"type": "tumbling"}),
        (("windows", "w"), {"type": "tumblin", "size": "1 hour"}),
        (("windows", "w"), {"type": "tumbling", "size": 3}),
        (("windows", "w"), {"type": "sliding", "size": "1 hour"}),
        (("windows", "w"), {"type": "tumbling", "size": "1 hour", "slide": "1 minute"}),
        (("windows", "w"), {"type": "count", "size": "1 hour"}),
        (("windows", "w"), {**SESSION, "size": "1 hour"}),
        (("aggregate",), None),
        (("aggregate",), {}),
        (("aggregate",), {"n": "cuont"}),
        (("aggregate",), [{"function": "sum"}]),
        (("aggregate",), [{"function": "count", "colum": "a"}]),
        (("aggregate",), [{"function": "approx_quantile", "column": "a", "q": "half"}]),
        (("process",), {"function": "a:b", "schema": "a INT"}),
        (("panes",), {"n": "count"}),
        (("join",), {"how": "left"}),
        (("interval_join",), {"lower": "-1 hour", "upper": "0 seconds"}),
        (("left",), {"key": "user", "source": {"format": "rate"}}),
        (("trigger",), {"evry": "1 minute"}),
        (("metrics",), {"port": -1}),
        (("spark",), {"sql": {"shuffle": [1]}}),
        (("firing",), {"trigger": "count", "count": 0}),
    ],
    ids=str,
)
def test_mistake_is_rejected_by_schema_and_library(validator, good, tmp_path, path, value):
    assert validator.is_valid(good)
    wrong = _with(good, path, value)
    assert not validator.is_valid(wrong)
    (tmp_path / "job.yaml").write_text(json.dumps(wrong))
    with pytest.raises(cli.PanestreamError):
        load_job(tmp_path / "job.yaml")


def test_schema_accepts_every_way_to_write_a_value(validator, good):
    for path, value in [
        (("key",), "item_id"),
        (("spark",), {"sql": {"shuffle": {"partitions": 4}}, "spark.ui.enabled": False}),
        (("windows", "w"), {"type": "tumbling", "size": "1 hour", "offset": "-8 hours"}),
        (("sinks", "main"), {"format": "console", "options": {}}),
        (("source", "schema"), {"a": "INT"}),
        (("aggregate",), [{"function": "count"}]),
        (("aggregate",), {"n": {"function": "sum", "column": "a"}, "m": "max(a + (b))"}),
    ]:
        assert list(validator.iter_errors(_with(good, path, value))) == []
