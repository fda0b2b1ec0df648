"""Update the tables of all keys in docs/reference/job-files.md, and the JSON Schema next to it, from the model that checks them.

The rest of the page is written by hand. A test fails if the page or the schema is outdated.

    .venv/bin/python scripts/make_job_keys.py
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from panestream.jobs import functions, model, sinks, streams, windows
from panestream.jobs.aggregates import FUNCTIONS
from panestream.jobs.model import job_schema, key_descriptions
from panestream.jobs.schema import Section, is_required

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "job-files.md"
SCHEMA = PAGE.with_name("job.schema.json")
"""Which is published by SchemaStore, for editors that have no panestream."""

_MARKED = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

SECTIONS: dict[str, type[Section]] = {
    "job": model.Job,
    "source": streams.SourceSection,
    "source_kafka": streams.KafkaSource,
    "event_time": streams.EventTime,
    "watermark": streams.Watermark,
    "processing_time": streams.ProcessingTime,
    "streams": streams.Stream,
    "join": streams.Join,
    "interval_join": streams.IntervalJoinSection,
    "window": windows.WindowSection,
    "firing": windows.FiringSection,
    "process": functions.ProcessSection,
    "apply_arrow": functions.ArrowFunctionSection,
    "fill": model.FillSection,
    "top": model.TopSection,
    "sinks": sinks.SinkSection,
    "trigger": model.TriggerSection,
    "metrics": model.Metrics,
}


def keys(cls: type[Section]) -> list[str]:
    """Return a line for each key of a section that has a value. Nested sections have separate tables."""
    lines, said = ["| key | value | default | |", "|---|---|---|---|"], key_descriptions(cls)
    for each in cls.fields():
        value = each.metadata["reader"].words
        if value == "table" or (cls is model.Job and each.name in ("aggregate", "panes", "windows", "spark")):
            continue
        lines.append(f"| `{each.name}` | {value} | {_default(each)} | {_cell(said[each.name])} |")
    return [line.replace("``", "`") for line in lines]


def _cell(words: str) -> str:
    return words.replace("|", "\\|")


def _default(each: dataclasses.Field[Any]) -> str:
    if is_required(each):
        return "must be there"
    value = each.default
    return "" if value in (None, (), dataclasses.MISSING) else str(value).lower() if isinstance(value, bool) else f"`{value}`"


def aggregates() -> list[str]:
    """Return a line for each aggregate function."""
    lines = ["| function | must have | may have |", "|---|---|---|"]
    for name, arguments in sorted(FUNCTIONS.items()):
        cells = [
            ", ".join(f"`{each.name}`" for each in arguments.values() if each.required is required) for required in (True, False)
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def renewed(text: str) -> str:
    """Return the page with updated tables."""

    def made(mark: re.Match[str]) -> str:
        lines = aggregates() if mark[2] == "aggregates" else keys(SECTIONS[mark[2]])
        return mark[1] + "\n".join(lines) + "\n" + mark[3]

    return _MARKED.sub(made, text)


def schema() -> str:
    """The JSON Schema of job files, as SchemaStore takes it: what `panestream schema` prints."""
    return json.dumps(job_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")
    print(f"renewed {PAGE} and {SCHEMA}")
