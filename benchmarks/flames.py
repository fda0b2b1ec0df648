"""Draw where processor time goes: ``python -m benchmarks.flames --java run.jfr --python run.raw --output run.svg``.

``run.jfr`` is a recording of Java's flight recorder (``jcmd PID JFR.start settings=profile duration=15s filename=run.jfr``), and
``run.raw`` one of py-spy for the same time (``py-spy record -f raw -r 100 -d 15 --subprocesses -p PID -o run.raw``), of each of
Spark's Python daemons: the operator has its own. Both have a sample every 10 ms. A box is a function, as wide as its share of the
samples, and hangs from its caller. Of Java, threads of tasks, of the state server and of the query's driver are shown.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 1200, 15
NARROWEST = 0.004
"""The smallest share that is drawn."""
COLOURS = {"Java": "#9ec1e0", "Python": "#f2c879"}
OUR, OURS = "panestream ", "#8fc98f"
"""The beginning of the names of our functions, and their colour."""
THREADS = {"Executor task": "tasks", "stream execution": "driver", "stateConnection": "state server", "Thread-": "state server"}
_PLUMBING = re.compile(r"runpy|daemon\.py|with_faulthandler|pyspark\.daemon|^process ")
_JAVA_FRAME = re.compile(r"([\w.$]+)\.([\w$<>]+)\(.*\)\s*line:")


@dataclass
class Box:
    """A function below its caller, with the samples in it."""

    samples: float = 0
    callees: dict[str, Box] = field(default_factory=dict)

    def add(self, stack: Iterable[str], samples: float) -> None:
        """Add samples of a stack, outermost function first."""
        self.samples += samples
        below = self
        for name in stack:
            below = below.callees.setdefault(name, Box())
            below.samples += samples


def python_stacks(text: str) -> Iterator[tuple[list[str], float]]:
    """Yield the stacks of py-spy with their samples."""
    for line in text.splitlines():
        stack, samples = line.rsplit(" ", 1)
        frames = [_short(frame) for frame in stack.split(";") if not _PLUMBING.search(frame)]
        yield ["Python", *frames], float(samples)


def _short(frame: str) -> str:
    """Return a frame of py-spy as ``function (file)``, after ``panestream`` if it is ours."""
    return (OUR if "panestream/" in frame else "") + re.sub(r"[^( ]*/|:\d+(?=\)$)", "", frame)


def java_stacks(text: str) -> Iterator[tuple[list[str], float]]:
    """Yield the stacks that ``jfr print`` shows, one sample each."""
    for sample in text.split("jdk.ExecutionSample {")[1:]:
        thread = re.search(r'sampledThread = "([^"]*)"', sample)
        role = next((role for begin, role in THREADS.items() if thread and thread[1].startswith(begin)), None)
        frames = [f"{found[1].rsplit('.', 1)[-1]}.{found[2]}" for found in map(_JAVA_FRAME.search, sample.splitlines()) if found]
        if role is not None and frames:
            yield ["Java", role, *reversed(frames)], 1.0


def drawn(root: Box, title: str) -> str:
    """Return the picture as SVG."""
    boxes: list[str] = []
    deepest = 0

    def draw(name: str, box: Box, left: float, level: int, colour: str) -> None:
        nonlocal deepest
        deepest = max(deepest, level)
        share = box.samples / root.samples
        colour = COLOURS.get(name, colour)
        label = name[: int(share * WIDTH / 6)] if share * WIDTH > 24 else ""
        boxes.append(
            f'<g transform="translate({left * WIDTH:.1f},{level * HEIGHT})"><title>{escape(name)}: {share:.1%}</title>'
            f'<rect width="{share * WIDTH:.1f}" height="{HEIGHT - 1}" fill="{OURS if name.startswith(OUR) else colour}"/>'
            f'<text x="2" y="{HEIGHT - 4}">{escape(label)}</text></g>'
        )
        for callee, below in sorted(box.callees.items(), key=lambda each: -each[1].samples):
            if below.samples / root.samples >= NARROWEST:
                draw(callee, below, left, level + 1, colour)
                left += below.samples / root.samples

    draw(title, root, 0, 0, "#dddddd")
    size = f'width="{WIDTH}" height="{(deepest + 1) * HEIGHT}"'
    style = 'font-family="monospace" font-size="10"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(boxes) + "\n</svg>\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(prog="benchmarks.flames", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--java", type=Path, help="a recording of the flight recorder")
    parser.add_argument("--python", type=Path, nargs="*", default=(), help="recordings of py-spy, as raw stacks")
    parser.add_argument("--title", default="all samples")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    root = Box()
    if options.java is not None:
        asked = ["jfr", "print", "--events", "jdk.ExecutionSample", "--stack-depth", "64", str(options.java)]
        for stack, samples in java_stacks(subprocess.run(asked, check=True, capture_output=True, text=True).stdout):
            root.add(stack, samples)
    for recording in options.python:
        for stack, samples in python_stacks(recording.read_text(encoding="utf-8")):
            root.add(stack, samples)
    options.output.write_text(drawn(root, options.title), encoding="utf-8")


if __name__ == "__main__":
    main()
