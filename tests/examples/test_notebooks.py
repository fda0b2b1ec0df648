"""Each notebook runs from its first to its last cell without warnings, and prints the output that its text promises."""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
SHOWN = {
    "first_windows": [
        r"WindowedResult",
        r"ann \|2026-01-01 10:00:00\|2026-01-01 10:01:00\|2",
        r"<svg",
        r"It was late: its window, \[2026-01-01 10:00:00, 2026-01-01 10:01:00\), had closed",
        r"firing 2 of .*\(late\)",
    ],
    "missing_row": [
        r"<th[^>]*>late rows</th><td[^>]*>1<",
        r"is closed since the watermark came to 2026-01-01 10:09:59\.999999",
        r"would have kept it",
        r"<svg",
    ],
    "live_query": [
        r"RunningQuery",
        r"<ended: micro-batch 4, .* 20 late rows>",
        r"aria-label=\"rows/s\"",
        r"Micro-batch 4",
        r"\(4, 65, 5\)",
    ],
}


def test_every_notebook_has_a_test():
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(SHOWN)


@pytest.mark.spark
@pytest.mark.parametrize("name", SHOWN)
def test_notebook_runs_without_warnings_and_shows_the_expected_output(name, tmp_path, monkeypatch):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", 4)
    nbformat.validate(notebook)
    # The kernel is another process, which needs the path of the tests.
    monkeypatch.setenv("PYTHONPATH", os.environ["PYTHONPATH"])
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert [each.text for each in outputs if each.output_type == "stream" and each.name == "stderr"] == []
    shown = "\n".join(each.get("text", "") + "\n".join(map(str, each.get("data", {}).values())) for each in outputs)
    missing = [pattern for pattern in SHOWN[name] if not re.search(pattern, shown)]
    assert not missing, shown[:5_000]
    if os.environ.get("PANESTREAM_KEEP_NOTEBOOKS"):
        nbformat.write(notebook, Path(os.environ["PANESTREAM_KEEP_NOTEBOOKS"]) / f"{name}.ipynb")
