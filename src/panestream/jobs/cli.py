"""The command line: ``panestream run``, ``explain``, ``inspect``, ``why``, ``savepoint``, ``compact`` and others."""

from __future__ import annotations

import re
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from panestream import __version__
from panestream.errors import JobError, PanestreamError, did_you_mean
from panestream.jobs.building import translate_messages
from panestream.jobs.loading import LoadedJob, Overrides, load_job
from panestream.jobs.model import Job, job_schema
from panestream.jobs.runner import SessionRunner, SparkRunner, reported, settings_of
from panestream.jobs.terminal import Display, PipeConsole, PlainConsole, discard_output, json_text, summary
from panestream.spark.failures import first_sentence, of_spark
from panestream.spark.progress.micro_batch import BatchProgress

if TYPE_CHECKING:
    from panestream import RunningQuery

app = typer.Typer(
    help="All of Flink's window machinery for PySpark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

EXIT_ERROR = 2
"""The exit status after an error that panestream explains."""
EXIT_SPARK = 1
"""The exit status after an error of Spark."""
EXIT_INTERRUPTED = 130
"""The exit status after Ctrl-C, as in shells."""

EXIT_CLOSED = 141
"""The exit status after the reader of the output closed the pipe, as in shells (128 + SIGPIPE)."""

make_runner: Callable[[LoadedJob], AbstractContextManager[SessionRunner]] = SparkRunner
"""Runs the jobs; tests replace it."""


class RunMode(str, Enum):
    """How a job runs."""

    stream = "stream"
    batch = "batch"


JobFile = Annotated[Path, typer.Argument(help="The job file: .toml, .yaml or .yml.", show_default=False)]
Input = Annotated[Path | None, typer.Option("--input", help="Read this file or folder instead of source.path.")]
Output = Annotated[Path | None, typer.Option("--output", help="Write all outputs and the checkpoint below this folder.")]
ModeOption = Annotated[
    RunMode | None, typer.Option("--mode", help="Run as a stream or as a batch instead of the mode in the file.")
]
Checkpoint = Annotated[Path | None, typer.Option("--checkpoint", help="Use this folder as checkpoint.")]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", min=0, max=65535, help="Show metrics to Prometheus on this port. 0 chooses a free port."),
]
StoredState = Annotated[str, typer.Argument(help="A checkpoint (its job may run or not) or a savepoint.", show_default=False)]
Batch = Annotated[int | None, typer.Option("--batch", help="The state after this micro-batch instead of the last.")]
Operator = Annotated[
    str | None, typer.Option("--operator", help="The operator to look into, by its uid, in a query of several operators.")
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", help="A setting of Spark, NAME=VALUE, e.g. spark.jars.packages. Repeat it for several."),
]
Remote = Annotated[str | None, typer.Option("--remote", help="The Spark Connect server to use, sc://HOST:PORT.")]
Savepoint = Annotated[
    str | None,
    typer.Option("--savepoint", help="Start a new checkpoint from this savepoint (a folder or a URL)."),
]
AllowIncomplete = Annotated[
    bool,
    typer.Option(
        "--allow-incomplete", help="With --savepoint: accept new aggregates although their first results lack rows unmarked."
    ),
]
AllowNonRestored = Annotated[
    bool,
    typer.Option("--allow-non-restored-state", help="With --savepoint: drop the state of operators that the job does not have."),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", help="Write a page about the run to this file, even if the run fails or is stopped."),
]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show where an error came from.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"panestream {__version__}")
        raise typer.Exit


@app.callback()
def panestream(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """All of Flink's window machinery for PySpark: job files, checked, explained and run."""


@app.command()
def run(
    job: JobFile,
    *,
    input: Input = None,  # noqa: A002 - the name of the option
    output: Output = None,
    mode: ModeOption = None,
    checkpoint: Checkpoint = None,
    savepoint: Savepoint = None,
    allow_incomplete: AllowIncomplete = False,
    allow_non_restored_state: AllowNonRestored = False,
    metrics_port: MetricsPort = None,
    report: Report = None,
    show_traceback: Traceback = False,
) -> None:
    """Run a job file. A stream goes on where it stopped: use the same command again."""
    console = PipeConsole()
    with readable_errors(show_traceback), ended_with(console):
        started = {"metrics_port": metrics_port, "savepoint": savepoint, "allow_incomplete": allow_incomplete}
        started |= {"allow_non_restored_state": allow_non_restored_state}
        loaded = _loaded(job, input, output, mode, checkpoint, **started)
        with reported(loaded, report, described(loaded.job), console) as told:
            execute(told, console)


@app.command()
def explain(
    job: JobFile,
    *,
    input: Input = None,  # noqa: A002
    output: Output = None,
    mode: ModeOption = None,
    checkpoint: Checkpoint = None,
    show_traceback: Traceback = False,
) -> None:
    """Check a job file and print its plan; nothing is read or written."""
    console = PipeConsole()
    with readable_errors(show_traceback), ended_with(console):
        loaded = _loaded(job, input, output, mode, checkpoint)
        with console.status("starting Spark"), make_runner(loaded) as runner:
            plan, guarantees = runner.explain(), runner.guarantees()
        lines = described(loaded.job, guarantees)
        width = max(12, *(len(name) + 2 for name, _ in lines))
        for name, where in lines:
            console.titled(f"{name:<{width}}", where)
        console.print()
        console.print(Text(plan), soft_wrap=True)


def _loaded(
    job: Path,
    source: Path | None,
    output: Path | None,
    mode: RunMode | None,
    checkpoint: Path | None,
    **started: Any,
) -> LoadedJob:
    kind = mode.value if mode else None
    return load_job(job, Overrides(input=source, output=output, mode=kind, checkpoint=checkpoint, **started))


@app.command()
def inspect(
    checkpoint: StoredState,
    *,
    batch: Batch = None,
    operator: Operator = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="Only this key: COLUMN=VALUE, or VALUE. \\N is null. Repeat it for several key columns."),
    ] = None,
    window: Annotated[
        list[str] | None, typer.Option("--window", help="Only windows that contain this time (UTC), or windows of this label.")
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, max=10_000, help="The largest number of entries in each list.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with pictures to this file instead.")] = None,
    conf: Conf = None,
    remote: Remote = None,
    show_traceback: Traceback = False,
) -> None:
    """Look into a checkpoint or savepoint: how far time is, which windows are open, which keys and key groups are large."""
    from panestream.jobs import state_commands

    console = PipeConsole()
    with readable_errors(show_traceback), ended_with(console):
        settings = settings_of(conf or (), remote)
        inspection = state_commands.Inspection(
            checkpoint, batch, key or (), window or (), most, as_json, html, settings, operator
        )
        state_commands.inspect(inspection, console)


@app.command()
def why(
    checkpoint: StoredState,
    *,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", help="The key: COLUMN=VALUE, or VALUE. \\N is null. Repeat it for several key columns."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--time", help="The event time of a row (UTC): which windows contain it, and is it late now?"),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option("--window", help="The start of a window (UTC): is it open, what does it contain, when does it fire?"),
    ] = None,
    batch: Batch = None,
    operator: Operator = None,
    most: Annotated[
        int, typer.Option("--most", min=1, max=100_000, help="The largest number of windows and stored rows to read.")
    ] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
    conf: Conf = None,
    remote: Remote = None,
    show_traceback: Traceback = False,
) -> None:
    """Say why a row is missing, or what a window waits for: what a checkpoint or savepoint still knows of it."""
    from panestream.jobs import state_commands

    console = PipeConsole()
    with readable_errors(show_traceback), ended_with(console):
        settings = settings_of(conf or (), remote)
        question = state_commands.Question(checkpoint, batch, key or (), time, window, most, as_json, settings, operator)
        state_commands.why(question, console)


@app.command()
def savepoint(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint: a folder or a URL.", show_default=False)],
    folder: Annotated[str, typer.Argument(help="The folder of the new savepoint, which must not exist.", show_default=False)],
    *,
    batch: Batch = None,
    conf: Conf = None,
    remote: Remote = None,
    show_traceback: Traceback = False,
) -> None:
    """Take the state out of a checkpoint, as Parquet: another job starts from it, with other key groups, aggregates, versions."""
    from panestream.jobs import state_commands

    console = PipeConsole()
    with readable_errors(show_traceback), ended_with(console):
        state_commands.savepoint(checkpoint, folder, batch, settings_of(conf or (), remote), console)


@app.command()
def compact(
    path: Annotated[str, typer.Argument(help="The folder of a file sink, as in its configuration.", show_default=False)],
    *,
    file_bytes: Annotated[int, typer.Option("--file-bytes", min=1, help="The approximate size of the new files.")] = 256 << 20,
    grace: Annotated[float, typer.Option("--grace", min=0, help="Seconds to keep replaced files.")] = 10.0,
    conf: Conf = None,
    remote: Remote = None,
    show_traceback: Traceback = False,
) -> None:
    """Put the small Parquet files of an output together, beside the query that writes there (batches_per_folder)."""
    from panestream.jobs import state_commands

    console = PipeConsole()
    with readable_errors(show_traceback), ended_with(console):
        state_commands.compact(path, file_bytes, grace, settings_of(conf or (), remote), console)


@app.command()
def schema() -> None:
    """Print the JSON Schema of job files, by which editors complete keys and mark mistakes."""
    with ended_with(PipeConsole()):
        print(json_text(job_schema()))


def _example_names() -> list[str]:
    return list(known_examples())


@app.command()
def examples(
    name: Annotated[str | None, typer.Argument(help="Copy this one.", show_default=False, autocompletion=_example_names)] = None,
    folder: Annotated[Path, typer.Argument(help="Copy it into this folder.")] = Path(),
    *,
    show_traceback: Traceback = False,
) -> None:
    """List the examples, or copy one: job files, scripts, pipelines."""
    console = PipeConsole()
    with readable_errors(show_traceback), ended_with(console):
        _list_examples(console) if name is None else _copy_example(name, folder, console)


def execute(
    loaded: LoadedJob,
    console: PipeConsole,
    *,
    after_batch: Callable[[BatchProgress], Iterable[RenderableType]] | None = None,
    again: str | None = None,
) -> None:
    """Run a job to its end or until Ctrl-C; raise ``typer.Exit`` after Ctrl-C, or if nobody reads the output.

    Args:
        loaded: the job.
        console: the output.
        after_batch: see :class:`Display`.
        again: the command that resumes after Ctrl-C, or None for the command that was typed.
    """
    job = loaded.job
    stop = threading.Event()
    end_if_closed(console)
    with console.status(f"starting Spark for {job.name}"):
        runner_context = make_runner(loaded)
    with runner_context as runner, translate_messages(loaded, _warn):
        if job.mode == "batch":
            display = Display(console, has_windows=job.without_windows is None)
            with console.status(f"running {job.name} as a batch"):
                runner.run_batch()
        else:
            if runner.metrics_url is not None:
                console.titled("metrics  ", runner.metrics_url)
            with Display(console, after_batch, has_windows=job.without_windows is None) as display, _stop_on_interrupt(stop):
                told = display if loaded.report is None else loaded.report.beside(display)
                _wait(runner.start(told), stop, display, console.closed)
    end_if_closed(console)
    console.print()
    console.print(
        summary(display.totals, described(job, outputs_only=True), title=f"{job.name}: {'stopped' if stop.is_set() else 'done'}")
    )
    if stop.is_set():
        command = again or " ".join(["panestream", *sys.argv[1:]])
        console.print(Text(f"\nStopped. Go on from here with the same command:\n  {command}"), soft_wrap=True)
        raise typer.Exit(EXIT_INTERRUPTED)


def _warn(text: str) -> None:
    PlainConsole(stderr=True).titled("warning: ", text, style="bold yellow")


def _wait(query: RunningQuery, stop: threading.Event, display: Display, closed: threading.Event) -> None:
    """Wait until the query ends or fails; stop it on request, or if nobody reads the output."""
    while not (stop.is_set() or closed.is_set()):
        if query.await_termination(0.25):
            return
        display.refresh()
    query.stop()


@contextmanager
def _stop_on_interrupt(stop: threading.Event) -> Generator[None]:
    """Set ``stop`` at Ctrl-C, which PySpark's handler would turn into a failed query; interrupt at a second Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(*_: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = [(number, signal.signal(number, interrupted)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def described(job: Job, guarantees: Mapping[str, str] | None = None, *, outputs_only: bool = False) -> list[tuple[str, str]]:
    """Return the inputs and outputs of a job as (label, place), with the delivery guarantees of a stream's outputs."""
    lines = []
    if not outputs_only:
        lines.append(("job", f"{job.name} ({job.mode})"))
        lines += [
            (" ".join((*where, "source")), f"{one.source}{': nothing matches it yet' if one.source.matches_nothing else ''}")
            for where, one in job.streams
        ]
        lines += _asked_for(job)
    told = {tag: f", {text}" for tag, text in (guarantees or {}).items() if job.mode == "stream"}
    lines += [(f"-> {tag}", f"{sink}{told.get(tag, '')}") for tag, sink in job.sinks.items()]
    if job.mode == "stream":
        lines.append(("checkpoint", str(job.checkpoint)))
    return lines


def end_if_closed(console: PipeConsole) -> None:
    """Exit silently if nobody reads the output."""
    if console.closed.is_set():
        raise typer.Exit(EXIT_CLOSED)


@contextmanager
def ended_with(console: PipeConsole) -> Generator[None]:
    """Exit with the status for a closed output, even if a sink was the first to notice."""
    try:
        yield
        sys.stdout.flush()
    except Exception as error:
        if console.closed.is_set() or _of_closed_pipe(error):
            discard_output()
            raise typer.Exit(EXIT_CLOSED) from None
        raise
    end_if_closed(console)


def _of_closed_pipe(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, BrokenPipeError):
        error = error.__cause__ or error.__context__
    return error is not None


def _asked_for(job: Job) -> list[tuple[str, str]]:
    """Return the settings of the job that the library's plan does not show."""
    lines = [(" ".join((*where, "key")), ", ".join(one.key)) for where, one in job.streams if one.key]
    if job.firing is not None:
        lines.append(("fires by", repr(job.firing.recipe)))
    if job.function is not None:
        name, spec = job.function
        lines.append((name, f"{spec.function} -> {spec.schema}"))
    shapes = {"with_firing": job.with_firing, "changelog": job.changelog, "every_firing": job.every_firing}
    rows = [name for name, wanted in shapes.items() if wanted]
    return lines + ([("rows", ", ".join(rows))] if rows else [])


@contextmanager
def readable_errors(show_traceback: bool) -> Generator[None]:
    """Print an error as one message, with a traceback only on request, then raise ``typer.Exit``."""
    errors = PlainConsole(stderr=True)
    try:
        yield
    except PanestreamError as error:
        if show_traceback:
            errors.print(Text(traceback.format_exc()), soft_wrap=True)
        errors.titled("error: ", str(error), style="bold red")
        raise typer.Exit(EXIT_ERROR) from None
    except KeyboardInterrupt:
        errors.print("interrupted")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except Exception as error:
        if not of_spark(error):
            raise
        if show_traceback:
            errors.print(Text(traceback.format_exc()), soft_wrap=True)
        said = f"Spark failed: {first_sentence(error)}"
        errors.titled("error: ", said, style="bold red")
        if not show_traceback:
            errors.print(Text("(--traceback shows where)", style="dim"))
        raise typer.Exit(EXIT_SPARK) from None


_PACKAGE = Path(__file__).resolve().parents[1]
_UNWANTED = shutil.ignore_patterns("__pycache__", "*.pyc")


def examples_folder() -> Path:
    """Return the folder of the examples: in an installed package, or next to the package in a source tree."""
    for place in (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples"):
        if (place / "hot_items.toml").is_file():
            return place
    raise JobError("this installation lacks the examples, which are in panestream's wheel and sdist")


def known_examples() -> Mapping[str, str]:
    """Return the examples with the first sentence of each."""
    found = {path.name: _first_words(path.read_text("utf-8")) for path in sorted(examples_folder().glob("*.[tp][oy]*"))}
    for readme in sorted(examples_folder().glob("*/README.md")):
        found[readme.parent.name] = readme.read_text("utf-8").partition("\n")[0].lstrip("# ") + " (a folder)"
    return found


def _first_words(text: str) -> str:
    line = text.partition("\n")[0]
    return line[3:] if line.startswith('"""') else line.lstrip("# ")


def _list_examples(console: PipeConsole) -> None:
    """Print the examples with a sentence about each."""
    table = Table.grid(padding=(0, 2))
    for name, words in known_examples().items():
        table.add_row(Text(name), Text(words, style="dim"))
    console.print(table)
    console.print(Text("\npanestream examples NAME [FOLDER] copies one."))


def _copy_example(name: str, into: Path, console: PipeConsole) -> None:
    """Copy an example with the examples that it imports; raise ``JobError`` if it is unknown or a target file exists."""
    known = known_examples()
    if name not in known:
        raise JobError(f"there is no example {name!r}; {did_you_mean(name, known)}")
    source = examples_folder() / name
    wanted = [source, *_imported(source)]
    taken = [into / each.name for each in wanted if (into / each.name).exists()]
    if taken:
        raise JobError(f"{taken[0]} exists. Give another folder, or remove it")
    try:
        into.mkdir(parents=True, exist_ok=True)
        for each in wanted:
            if each.is_dir():
                shutil.copytree(each, into / each.name, ignore=_UNWANTED)
            else:
                shutil.copyfile(each, into / each.name)
    except OSError as error:
        raise JobError(f"{into}: cannot be written: {error.strerror or error}") from None
    for each in wanted:
        console.print(Text(f"copied {into / each.name}"), soft_wrap=True)


def _imported(path: Path) -> list[Path]:
    """Return the examples that a script imports; those import no others."""
    if path.suffix != ".py":
        return []
    names = re.findall(r"^(?:from|import) (\w+)", path.read_text("utf-8"), re.MULTILINE)
    return [path.with_name(f"{name}.py") for name in names if path.with_name(f"{name}.py").is_file()]
