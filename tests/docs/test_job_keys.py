"""Each example of keys in docs/reference/job-files.md is valid in a complete job."""

from __future__ import annotations

import re

import pages
import pytest

from panestream.jobs.loading import load_job

PAGE = pages.read(pages.DOCS / "reference" / "job-files.md")
EXAMPLES = [block for block in PAGE.of("toml") if block.argument == "fragment" and not block.text.startswith("#:schema")]
REST = {
    "": 'key = ["user_id"]',
    "source": '[source]\nformat = "parquet"\npath = "clicks"\nschema = "user_id BIGINT, price DOUBLE, quantity INT, at TIMESTAMP"',
    "event_time": '[event_time]\ncolumn = "at"',
    "watermark": '[watermark]\nstrategy = "monotonous"',
    "window": '[window]\ntype = "tumbling"\nsize = "1 hour"',
    "aggregate": '[aggregate]\nviews = "count"',
    "sinks.main": '[sinks.main]\nformat = "parquet"\npath = "output/main"',
    "sinks.invalid": '[sinks.invalid]\nformat = "parquet"\npath = "output/invalid"',
}
SIDES = {
    side: f'[{side}]\nkey = "user"\n[{side}.source]\nformat = "parquet"\npath = "{side}"\nschema = "user STRING, at TIMESTAMP"\n'
    f'[{side}.event_time]\ncolumn = "at"\n[{side}.watermark]\ndelay = "5 seconds"'
    for side in ("left", "right")
}
ONE = ("", "source", "event_time", "watermark", "sinks.invalid")
INSTEAD = {
    "windows": ["window"],
    "process": ["aggregate"],
    "apply_arrow": ["aggregate"],
    "panes": ["aggregate"],
    "join": ["aggregate", *ONE],
    "interval_join": ["aggregate", "window", *ONE],
    "asof_join": ["aggregate", "window", *ONE],
    "left": [*ONE],
    "rules": ["window"],
    "processing_time": ["event_time", "watermark", "sinks.invalid"],
}
"""Sections that a section of the example replaces, in addition to the section with its name."""


def whole_job(example: str) -> str:
    """Complete an example to a whole job."""
    sections = re.findall(r"^\[([\w.]+)\]", example, re.MULTILINE) or [""]
    taken = {*sections, *(old for new in sections for old in INSTEAD.get(new.partition(".")[0], []))}
    rest = {name: text for name, text in REST.items() if name not in taken}
    if "source" in taken and "source" not in sections:
        rest |= {side: text for side, text in SIDES.items() if side not in sections}
    if "processing_time" in sections:
        rest["window"] += '\ntime = "processing"'
    if "sinks.invalid" in {*rest, *sections} and "event_time" in rest:
        rest["event_time"] += '\ninvalid = "side_output"'
    ahead = [rest.pop("")] if "" in rest else []
    return "\n\n".join([*ahead, example, *rest.values()])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda block: block.text.split("\n")[0])
def test_example_of_keys_is_valid(example, tmp_path):
    (tmp_path / "visits.py").write_text("def describe(key, context, rows): ...\ndescribe_all = describe\n", "utf-8")
    file = tmp_path / "job.toml"
    file.write_text(whole_job(example.text), "utf-8")
    load_job(file)


def test_every_section_has_an_example():
    named = {section for block in EXAMPLES for section in re.findall(r"^\[([\w.]+)\]", block.text, re.MULTILINE)}
    text = PAGE.path.read_text("utf-8")
    wanted = re.findall(r"^## \[(\w+(?:\.\w+)?)\]", text, re.MULTILINE)
    assert [section for section in wanted if section not in named] == []
