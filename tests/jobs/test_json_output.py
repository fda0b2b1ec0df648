"""JSON that the command line prints cannot affect a terminal, because all control characters are escaped."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import panestream.jobs
from panestream.jobs.json_output import json_text
from panestream.jobs.schema import CONTROL


def test_printed_json_preserves_all_characters_and_escapes_controls():
    whole = "a".join(map(chr, range(sys.maxunicode + 1)))  # adjacent surrogates would become one character
    text = json_text({whole: [whole]})
    assert json.loads(text) == {whole: [whole]}
    assert not CONTROL.search(text.replace("\n", ""))
    assert all(line.isprintable() for line in text.split("\n"))
    assert json_text("äß漢😀") == '"äß漢😀"'


def test_command_line_writes_json_in_one_module_only():
    """One place makes all JSON, so none is forgotten. Other output passes through the console, which escapes control characters."""
    makers = []
    for path in Path(panestream.jobs.__file__).parent.glob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        makers += [
            path.name for call in calls if isinstance(call, ast.Attribute) and call.attr in ("dumps", "dump", "print_json")
        ]
    assert makers == ["json_output.py"]
