"""Type checkers accept a user's right code, and find each mistake: the package is typed for those who use it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
USERS = Path(__file__).with_name("users")
ACCEPTED, REFUSED = USERS / "accepted.py", USERS / "refused.py"
WRONG = {(REFUSED.name, at) for at, line in enumerate(REFUSED.read_text("utf-8").splitlines(), 1) if line.endswith("  # wrong")}
ENVIRONMENT = {**os.environ, "MYPYPATH": str(ROOT / "src")}


def found_by_mypy() -> set[tuple[str, int]]:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", ROOT / ".mypy_cache" / "users", ACCEPTED, REFUSED]
    done = subprocess.run(command, cwd=USERS, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    errors = re.findall(r"^(.+?):(\d+): error: ", done.stdout, re.MULTILINE)
    assert errors, done.stderr
    return {(Path(file).name, int(at)) for file, at in errors}


def found_by_pyright(program: str, folder: Path) -> set[tuple[str, int]]:
    for file in (ACCEPTED, REFUSED):
        shutil.copy(file, folder)
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT / "src")]}))
    command = [program, "--outputjson", "--pythonpath", sys.executable, "--project", folder]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    errors = json.loads(done.stdout)["generalDiagnostics"]
    return {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in errors if each["severity"] == "error"}


def test_mypy_accepts_right_code_and_finds_each_mistake():
    assert len(WRONG) >= 9
    assert found_by_mypy() == WRONG


@pytest.mark.full
def test_pyright_accepts_right_code_and_finds_each_mistake(tmp_path):
    program = shutil.which("pyright") or shutil.which("pyright", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("no pyright here: pip install pyright")
    assert found_by_pyright(program, tmp_path) == WRONG
