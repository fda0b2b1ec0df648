"""`panestream examples`, `--version` and shell completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import panestream
from panestream.jobs import cli
from panestream.jobs.loading import load_job

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]


def invoke(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_examples_command_lists_every_example_with_a_description():
    result = invoke("examples")
    assert result.exit_code == 0, result.output
    folders = {"feature_store", "notebooks", "pipelines"}
    names = {path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".toml")} | folders
    assert set(cli.known_examples()) == names
    for name, words in cli.known_examples().items():
        assert len(words) > 15, name
        assert name in result.output


def test_example_is_copied_unless_the_file_exists(tmp_path):
    result = invoke("examples", "hot_items.toml", tmp_path / "new" / "er")
    assert result.exit_code == 0, result.output
    copied = tmp_path / "new" / "er" / "hot_items.toml"
    assert str(copied) in result.output
    assert load_job(copied).job.name == "hot items"
    copied.write_text("mine")
    result = invoke("examples", "hot_items.toml", tmp_path / "new" / "er")
    assert result.exit_code == cli.EXIT_ERROR
    assert " exists. " in result.output
    assert copied.read_text() == "mine"


def test_example_is_copied_with_its_imports_or_as_a_folder(tmp_path):
    assert invoke("examples", "session_trigger.py", tmp_path).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"session_trigger.py", "shopper_sessions.py"}
    assert invoke("examples", "pipelines", tmp_path).exit_code == 0
    assert (tmp_path / "pipelines" / "transformations" / "clicks.py").is_file()
    assert not list(tmp_path.rglob("__pycache__"))


def test_unknown_example_or_missing_examples_are_reported(tmp_path, monkeypatch):
    result = invoke("examples", "hot_itms.toml", tmp_path)
    assert result.exit_code == cli.EXIT_ERROR
    assert "did you mean 'hot_items.toml'" in result.output
    monkeypatch.setattr(cli, "_PACKAGE", tmp_path / "a" / "b")
    result = invoke("examples")
    assert result.exit_code == cli.EXIT_ERROR
    assert "this installation lacks the examples" in result.output


def test_examples_in_the_package_take_precedence(tmp_path, monkeypatch):
    inside = tmp_path / "src" / "panestream" / "examples"
    inside.mkdir(parents=True)
    (inside / "hot_items.toml").write_text("# of the wheel, and of nothing else\n")
    monkeypatch.setattr(cli, "_PACKAGE", inside.parent)
    assert dict(cli.known_examples()) == {"hot_items.toml": "of the wheel, and of nothing else"}


def test_version_equals_the_project_version():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert panestream.__version__ == wanted
    result = invoke("--version")
    assert (result.exit_code, result.output) == (0, f"panestream {wanted}\n")


def test_version_needs_no_heavy_import():
    script = "import sys, panestream; panestream.__version__; print(sorted({m.split('.')[0] for m in sys.modules} & set(sys.argv[1:])))"
    heavy = ["pyspark", "numpy", "pyarrow", "importlib_metadata"]
    done = subprocess.run(
        [sys.executable, "-c", script, *heavy],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.stdout == "[]\n"


@pytest.mark.full
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("panestream ex", {"examples", "explain"}),
        ("panestream examples hot", {"hot_items.toml", "hot_items_kafka.toml"}),
        ("panestream run --met", {"--metrics-port"}),
        ("panestream run --mode ", {"stream", "batch"}),
    ],
)
def test_bash_completion_suggests_words(line, wanted):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "_PANESTREAM_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split(" ")) - 1),
    }
    # The same code as the script `panestream`, which may not be installed here.
    script = "import sys; sys.argv[0] = 'panestream'; from panestream.jobs.cli import app; app(prog_name='panestream')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment)
    assert set(done.stdout.split()) == wanted, done.stderr


def test_completion_can_be_installed_from_the_command_line():
    result = invoke("--help")
    assert "--install-completion" in result.output
    assert "--show-completion" in result.output
