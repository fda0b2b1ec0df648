"""scripts/ensure_java.sh finds a Java that suits Spark, skips one that does not, and prints one line about what to install."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "ensure_java.sh"


def fake_java(home: Path, version: str) -> Path:
    """Make a Java home whose ``java`` reports a version and this home."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho \'openjdk version "{version}" 2025-01-21\' >&2\necho "    java.home = {home}" >&2\n')
    program.chmod(0o755)
    return home


def ensure(*, java_home: Path | None = None, on_path: Path | None = None, roots: str = "") -> subprocess.CompletedProcess[str]:
    path = f"{on_path / 'bin'}:/usr/bin:/bin" if on_path else "/nowhere"
    environment = {"PATH": path, "HOME": "/nowhere", "ENSURE_JAVA_ROOTS": roots, "ENSURE_JAVA_INSTALL": "no"}
    if java_home:
        environment["JAVA_HOME"] = str(java_home)
    if not on_path:
        # The tools of the script, but no java.
        tools = Path(roots or os.devnull).parent / "tools"
        tools.mkdir(exist_ok=True)
        for tool in ("sed", "head", "id", "uname", "mktemp", "rm", "cat"):
            found = next(Path(folder) / tool for folder in ("/bin", "/usr/bin") if (Path(folder) / tool).exists())
            (tools / tool).symlink_to(found)
        environment["PATH"] = str(tools)
    return subprocess.run(["/bin/bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize("version", ["17.0.9", "21.0.2", "21"])
def test_java_home_with_a_suitable_version_is_used(tmp_path, version):
    home = fake_java(tmp_path / "jdk", version)
    assert ensure(java_home=home, roots=str(tmp_path / "roots")).stdout.strip() == str(home)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.20", "25.0.1"])
def test_java_on_the_path_is_used_if_java_home_has_a_wrong_version(tmp_path, version):
    wrong, right = fake_java(tmp_path / "wrong", version), fake_java(tmp_path / "right", "17.0.9")
    assert ensure(java_home=wrong, on_path=right).stdout.strip() == str(right)


def test_java_is_searched_in_the_usual_folders(tmp_path):
    home = fake_java(tmp_path / "jvm" / "java-17-openjdk", "17.0.9")
    assert ensure(roots=str(tmp_path / "jvm")).stdout.strip() == str(home)


def test_missing_java_is_reported_in_one_line_with_what_to_install(tmp_path):
    done = ensure(roots=str(tmp_path / "empty"))
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "Java 17 or 21" in done.stderr
    assert "Install" in done.stderr


def test_error_names_the_version_if_only_a_wrong_java_is_installed(tmp_path):
    wrong = fake_java(tmp_path / "wrong", "1.8.0_392")
    done = ensure(java_home=wrong, roots=str(tmp_path / "empty"))
    assert done.returncode == 1
    assert "(Java 8)" in done.stderr
