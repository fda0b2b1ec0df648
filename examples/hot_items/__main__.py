"""``make run``, or ``python -m hot_items`` with examples/ on PYTHONPATH: the command line of the demo."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from hot_items.demo import Demo, prepare, show_outcome
from panestream.jobs.cli import Traceback, ended_with, execute, readable_errors
from panestream.jobs.loading import load_job
from panestream.jobs.terminal import PipeConsole

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    *,
    input: Annotated[  # noqa: A002 - the name of the option
        Path | None, typer.Option("--input", help="A UserBehavior CSV file (.gz too) instead of made-up clicks.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1_000, max=20_000_000, help="How many clicks to make.")] = 3_000_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed makes the same clicks.")] = 1,
    files: Annotated[int, typer.Option("--files", min=1, max=1_000, help="Into how many files, each a micro-batch.")] = 12,
    output: Annotated[Path, typer.Option("--output", help="The folder of everything the demo makes.")] = Path("demo-output"),
    utc_offset: Annotated[
        float, typer.Option("--utc-offset", min=-14, max=14, help="The shop's clock in hours from UTC, for what is shown.")
    ] = 8,
    keep: Annotated[bool, typer.Option("--keep", help="Go on from what an earlier run left; default: begin anew.")] = False,
    show_traceback: Traceback = False,
) -> None:
    """Hot items of a shop: the most viewed items per hour, every five minutes, streaming, with a picture at the end."""
    console = PipeConsole()
    with readable_errors(show_traceback), ended_with(console):
        demo = Demo(input=input, rows=rows, seed=seed, files=files, output=output, utc_offset=utc_offset, keep=keep)
        prepared = prepare(demo, console)
        arguments = shlex.join([*sys.argv[1:], *([] if keep else ["--keep"])])
        again = f"make run ARGS={shlex.quote(arguments)}"
        execute(load_job(prepared.job_file), console, after_batch=prepared.ranking, again=again)
        show_outcome(prepared, console)


if __name__ == "__main__":
    app()
