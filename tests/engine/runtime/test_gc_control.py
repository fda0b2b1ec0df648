"""Control of Python's garbage collector."""

from __future__ import annotations

import gc

from panestream.engine.runtime import group_operator as gc_control


def test_modules_are_frozen_once_per_process(monkeypatch):
    calls = []
    monkeypatch.setattr(gc_control, "_frozen", False)
    monkeypatch.setattr(gc, "collect", lambda: calls.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    gc_control.freeze_modules_once()
    gc_control.freeze_modules_once()
    assert calls == ["collect", "freeze"]


def test_collector_is_paused_until_the_outermost_block_ends():
    assert gc.isenabled()
    with gc_control.collector_paused():
        assert not gc.isenabled()
        with gc_control.collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
