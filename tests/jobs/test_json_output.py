"""JSON that the command line prints may be shown by a terminal: no character of it does anything but be seen."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import panestream.jobs
from panestream.jobs.schema import CONTROL
from panestream.jobs.terminal import json_text


def test_every_character_comes_back_and_none_does_anything_to_a_terminal():
    whole = "a".join(map(chr, range(sys.maxunicode + 1)))  # two surrogates side by side would be one character
    text = json_text({whole: [whole]})
    assert json.loads(text) == {whole: [whole]}
    assert not CONTROL.search(text.replace("\n", ""))
    assert all(line.isprintable() for line in text.split("\n"))
    assert json_text("äß漢😀") == '"äß漢😀"'


def test_command_line_makes_json_in_one_place_only():
    """So no other one is forgotten: what is printed as it stands passes by the console, which shows controls as numbers."""
    makers = []
    for path in Path(panestream.jobs.__file__).parent.glob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
        makers += [
            path.name for call in calls if isinstance(call, ast.Attribute) and call.attr in ("dumps", "dump", "print_json")
        ]
    assert makers == ["terminal.py"]
