"""Apache Flink from PyPI (its wheel holds the jars), its reader of Parquet from Maven Central, and our small program on both.

Missing parts are fetched or built. Flink needs Hadoop's classes to read Parquet, and takes them from PySpark.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark

VERSION = "2.3.0"
HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "FlinkWorkload.java"
HEAP = "6g"
_MAVEN = "https://repo1.maven.org/maven2/org/apache/flink"
_PARQUET = {
    "flink-connector-files": "b340e2d74b420ce539868b63513d28d93f5d3179475d1439353b6e129e66a027",
    "flink-sql-parquet": "f30617f4a5a6d437750f155ff72178ab34439aec91df64d96621c260559ba5fd",
    "flink-table-common": "75da42076ecb2c64735b46c837d2f7bd7c7d07e03a2cf59661ca2ca843db643b",
}
"""The jar that reads Parquet for Flink, and its SHA-256."""
_OF_SPARK = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar", "snappy-java-*.jar")
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
    """Return Flink's jars below ``folder``, and the PySpark jars that it needs. The first call downloads about 340 MB."""
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
    for name, digest in _PARQUET.items():
        _fetch(name, digest, lib / f"{name}-{VERSION}.jar")
    of_spark = Path(pyspark.__file__).parent / "jars"
    return [*sorted(lib.glob("*.jar")), *(jar for pattern in _OF_SPARK for jar in sorted(of_spark.glob(pattern)))]


def _fetch(name: str, digest: str, target: Path) -> None:
    """Fetch a jar of Flink from Maven Central, unless it exists.

    Raises:
        RuntimeError: what came is not what was meant.
    """
    if target.exists():
        return
    with urllib.request.urlopen(f"{_MAVEN}/{name}/{VERSION}/{target.name}", timeout=120) as answer:  # noqa: S310 - https
        jar = answer.read()
    if hashlib.sha256(jar).hexdigest() != digest:
        raise RuntimeError(f"{target.name} from Maven Central is not the one that was looked at when this was written")
    part = target.with_suffix(".part")
    part.write_bytes(jar)
    part.rename(target)


def java(program: str = "java") -> str:
    """Return the path of a program of the Java in ``JAVA_HOME`` or on the PATH.

    Raises:
        RuntimeError: there is no such file.
    """
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(program, path=f"{home}/bin") if home else shutil.which(program)
    if path is None:
        raise RuntimeError(f"no {program} here: building the Flink program needs a JDK (17 or 21), a JRE is not enough")
    return path


def build(folder: Path) -> str:
    """Compile the program if it is newer than its classes, and return the class path."""
    path = os.pathsep.join(str(jar) for jar in jars(folder))
    classes = folder / "flink-classes"
    made = classes / "FlinkWorkload.class"
    if not made.exists() or made.stat().st_mtime < PROGRAM.stat().st_mtime:
        classes.mkdir(exist_ok=True)
        subprocess.run([java("javac"), "-nowarn", "-Xlint:none", "-cp", path, "-d", str(classes), str(PROGRAM)], check=True)
        (classes / "log4j2.properties").write_text(_LOGGING)
    return os.pathsep.join([str(classes), path])


def run(folder: Path, arguments: Mapping[str, object]) -> list[dict[str, Any]]:
    """Run the program, and return the output of each repeat.

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
