"""What is done to Python's search for garbage cycles."""

from __future__ import annotations

import gc

from panestream.engine.runtime import gc_control as garbage


def test_a_process_settles_once(monkeypatch):
    calls = []
    monkeypatch.setattr(garbage, "_settled", False)
    monkeypatch.setattr(gc, "collect", lambda: calls.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    garbage.settle()
    garbage.settle()
    assert calls == ["collect", "freeze"]


def test_the_collector_is_as_it_was_afterwards():
    assert gc.isenabled()
    with garbage.without_collector():
        assert not gc.isenabled()
        with garbage.without_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
