"""Loads and checks a job file, with changes from the command line."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from panestream.errors import JobError
from panestream.jobs.cross_checks import check_sections
from panestream.jobs.document import MAX_DEPTH, MAX_VALUES, Document, load_document
from panestream.jobs.model import Job
from panestream.jobs.schema import CONTROL, DocumentPlace, InvalidValue, section

_MAX_BITS, _MAX_NAME = 64, 200
"""Limits of integers and of key names."""

if TYPE_CHECKING:
    from panestream.insight.report_recording import RunReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Changes of a job file by the command line; paths are relative to the working folder.

    ``output`` is a folder for the checkpoint and all file sinks (``main``, ``late``, ``invalid`` in it). ``savepoint`` is the
    state from which a stream with a new checkpoint starts. ``allow_incomplete`` permits new aggregates whose results do not
    show that they lack old rows.
    """

    input: Path | None = None
    output: Path | None = None
    mode: str | None = None
    checkpoint: Path | None = None
    metrics_port: int | None = None
    savepoint: str | None = None
    allow_incomplete: bool = False


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A checked job with its document, so that later errors (such as a missing column) still point at a line."""

    job: Job
    document: Document
    savepoint: str | None = None
    """The savepoint to start from; used once, so the command names it and not the file."""
    allow_incomplete: bool = False
    report: RunReport | None = None

    def place(self, *where: str | int) -> DocumentPlace:
        return DocumentPlace(self.document, where)


def load_job(path: Path, overrides: Overrides | None = None) -> LoadedJob:
    """Read and check a job file after applying ``overrides``.

    The ``JobError`` has a line for each problem: ``file:line: path.of.key: problem; did you mean …?``
    """
    overrides = overrides or Overrides()
    document = load_document(path)
    _check_content(DocumentPlace(document))
    document = _overridden(document, overrides)
    place = DocumentPlace(document)
    try:
        job: Job = section(Job)(document.data, place)
    except InvalidValue:
        place.finish()
        raise JobError(f"{path}: not a job file") from None
    check_sections(job, place)
    place.finish()
    if job.name is None:
        job = replace(job, name=path.stem)
    if job.checkpoint is None and job.mode == "stream":
        # Without a checkpoint, a stream would start from scratch at every run and duplicate its output.
        job = replace(job, checkpoint=str((path.parent / f"{path.stem}.checkpoint").resolve()))
    return LoadedJob(job, document, overrides.savepoint, overrides.allow_incomplete)


def _check_content(place: DocumentPlace) -> None:
    """Raise ``JobError`` for values that no key accepts or errors cannot show, before they are copied or read."""
    ahead: list[tuple[DocumentPlace, object]] = [(place, place.document.data)]
    seen = 0
    while ahead:
        at, value = ahead.pop()
        seen += 1
        if seen + len(ahead) > MAX_VALUES:
            raise JobError(f"{place.document.path}: more than {MAX_VALUES:,} values are too many for a job file; is it the data?")
        if len(at.where) > MAX_DEPTH:
            line = at.document.line_of(at.where)
            raise JobError(f"{at.document.path}:{line}: nested too deeply for a job file (more than {MAX_DEPTH} levels)")
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            at.note(f"a number of {value.bit_length():,} bits is too large")
        elif isinstance(value, list):
            ahead += [(at.at(index), each) for index, each in enumerate(value)]
        elif isinstance(value, dict):
            for name, inside in value.items():
                if len(str(name)) > _MAX_NAME or CONTROL.search(str(name)):
                    at.at(str(name)).note("the name of a key is short, and without control characters")
                else:
                    ahead.append((at.at(str(name)), inside))
    place.finish()


def _overridden(document: Document, overrides: Overrides) -> Document:
    data = copy.deepcopy(dict(document.data))
    if overrides.mode is not None:
        data["mode"] = overrides.mode
    if overrides.input is not None:
        if "left" in data or "right" in data:
            raise JobError(f"{document.path}: --input is for jobs of one source, and this one has two: write their paths there")
        source = data.setdefault("source", {})
        if isinstance(source, dict):
            source["path"] = str(overrides.input.resolve())
    if overrides.output is not None:
        sinks = data.get("sinks")
        every = sinks.items() if isinstance(sinks, dict) else ()
        files = [(tag, sink) for tag, sink in every if isinstance(sink, dict) and "path" in sink]
        if not files:
            raise JobError(f"{document.path}: --output is for sinks that write files, and this job has none")
        for tag, sink in files:
            sink["path"] = str((overrides.output / str(tag)).resolve())
        # A new output with the old checkpoint would contain only later results.
        data["checkpoint"] = str((overrides.output / "checkpoint").resolve())
    if overrides.checkpoint is not None:
        data["checkpoint"] = str(overrides.checkpoint.resolve())
    if overrides.metrics_port is not None:
        metrics = data.setdefault("metrics", {})
        if isinstance(metrics, dict):
            metrics["port"] = overrides.metrics_port
    return replace(document, data=data)
