"""Apache Flink from PyPI (its wheel holds the jars), and our small program on it, built when it is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VERSION = "2.3.0"
HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "FlinkWorkload.java"
HEAP = "6g"
_LOGGING = """\
rootLogger.level = ERROR
rootLogger.appenderRef.console.ref = console
appender.console.name = console
appender.console.type = CONSOLE
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1} %m%n
"""
_OPENED = ("java.util", "java.lang", "java.time", "java.util.concurrent")


def jars(folder: Path) -> list[Path]:
    """Flink's jars below ``folder``; downloads about 330 MB the first time."""
    lib = folder / f"flink-{VERSION}"
    if not (lib / "_complete").exists():
        lib.mkdir(parents=True, exist_ok=True)
        print(f"downloading Apache Flink {VERSION} (once, 330 MB) ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=folder) as wheels:
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary",
                ":all:",
                "--dest",
                wheels,
            ]
            subprocess.run([*command, f"apache-flink-libraries=={VERSION}"], check=True)
            with zipfile.ZipFile(next(Path(wheels).glob("*.whl"))) as wheel:
                for name in wheel.namelist():
                    base = name.rsplit("/", 1)[-1]
                    if name.startswith("pyflink/lib/") and base.startswith(("flink-dist-", "log4j-")):
                        (lib / base).write_bytes(wheel.read(name))
        (lib / "_complete").touch()
    return sorted(lib.glob("*.jar"))


def java(program: str = "java") -> str:
    """A program of the Java that ``JAVA_HOME`` or the PATH names.

    Raises:
        RuntimeError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(program, path=f"{home}/bin") if home else shutil.which(program)
    if path is None:
        raise RuntimeError(f"no {program} here: building the Flink program needs a JDK (17 or 21), a JRE is not enough")
    return path


def build(folder: Path) -> str:
    """Compiles the program if it is newer than its classes; returns the class path."""
    path = os.pathsep.join(str(jar) for jar in jars(folder))
    classes = folder / "flink-classes"
    made = classes / "FlinkWorkload.class"
    if not made.exists() or made.stat().st_mtime < PROGRAM.stat().st_mtime:
        classes.mkdir(exist_ok=True)
        subprocess.run([java("javac"), "-nowarn", "-Xlint:none", "-cp", path, "-d", str(classes), str(PROGRAM)], check=True)
        (classes / "log4j2.properties").write_text(_LOGGING)
    return os.pathsep.join([str(classes), path])


def run(folder: Path, arguments: Mapping[str, object]) -> list[dict[str, Any]]:
    """Runs the program; returns what each repeat printed.

    Raises:
        RuntimeError: it failed.
    """
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    path = build(folder)
    with tempfile.TemporaryDirectory(prefix="flink-") as checkpoints:
        options = {**arguments, "checkpoints": checkpoints}
        flat = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        command = [java(), f"-Xmx{HEAP}", *opened, f"-Djava.io.tmpdir={checkpoints}", "-cp", path, "FlinkWorkload", *flat]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    repeats = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not repeats:
        raise RuntimeError(f"Flink failed:\n{done.stderr[-4000:]}")
    return repeats
