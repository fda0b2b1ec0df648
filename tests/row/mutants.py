"""Planted faults: does any test notice? ``python tests/row/mutants.py [WORD...]`` runs those whose text contains a word, or all.

Every mutant replaces one piece of text in a copy of the package and runs the tests of the row operator until one fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROW, FAST, STATE = "engine/operators/row/operator.py", "engine/operators/row/fast.py", "engine/operators/row/state.py"
TIMERS, MERGING, CONTEXTS = (
    "engine/operators/row/timers.py",
    "engine/operators/row/merging.py",
    "engine/operators/row/contexts.py",
)
TRIGGERS, ASSIGNERS, EVICTORS = "windowing/triggers/", "windowing/assigners/", "windowing/evictors.py"

MUTANTS: list[tuple[str, str, str]] = [
    # lateness and cleanup
    (
        ROW,
        "else end - 1) <= self.watermark:\n            return None",
        "else end - 1) < self.watermark:\n            return None",
    ),
    (ROW, "timestamp + self.plan.allowed_lateness > self.watermark", "timestamp + self.plan.allowed_lateness >= self.watermark"),
    (ROW, "timestamp + self.plan.allowed_lateness > self.watermark", "timestamp > self.watermark"),
    (ROW, "if not self._event_time or timestamp", "if timestamp"),
    (ROW, "return min(max_timestamp + self.plan.allowed_lateness, MAX_TIMESTAMP)", "return min(max_timestamp, MAX_TIMESTAMP)"),
    (ROW, "if self._event_time else max_timestamp", "if True else max_timestamp"),
    (ROW, "            self.late_dropped += 1\n        else:", "            self.late_dropped += 1\n        if True:"),
    (
        ROW,
        "        if not taken:\n            self.not_taken",
        "        if not taken or not windows:\n            self.late_dropped += 1\n            self.not_taken",
    ),
    (ROW, "if event_time == self._event_time and time ==", "if time =="),
    (ROW, "            self._register_cleanup(slot)\n", ""),
    (ROW, "        self._retire(slot)\n        del owner.slots[slot.bounds]", "        self._retire(slot)"),
    (ROW, "if timers.cleanup < MAX_TIMESTAMP:", "if timers.cleanup <= MAX_TIMESTAMP:"),
    (ROW, "            queue.arm(timers)  # a window", "            pass  # a window"),
    # triggers' results, firing
    (ROW, "if result & 1:", "if result == 1:"),
    (ROW, "if result & 2:", "if result == 3:"),
    (
        ROW,
        "if result & 2:\n            slot.contents = EMPTY",
        "if result & 2:\n            slot.contents = EMPTY\n            slot.trigger_cells.clear()",
    ),
    (
        ROW,
        "        if slot.contents is EMPTY:\n            return\n        try:\n            self._emit(slot)",
        "        try:\n            self._emit(slot)",
    ),
    (
        ROW,
        "self._fired.append((key, window, inputs[0], slot.max_timestamp))",
        "self._fired.append((key, window, inputs[0], slot.max_timestamp + 1))",
    ),
    (ROW, "            self._trigger.clear(slot.window, self._scope)\n            if isinstance", "            if isinstance"),
    (ROW, "                self._function.clear(self._window_scope)", "                pass"),
    # time
    (ROW, "if watermark <= self.watermark:", "if watermark < self.watermark:"),
    (ROW, "if watermark <= self.watermark:\n            return", "if watermark == self.watermark:\n            return"),
    (ROW, "self.store.processing_queue.due(self.clock - 1)", "self.store.processing_queue.due(self.clock)"),
    (ROW, "self.store.load_due(processing=self.clock - 1)", "self.store.load_due(processing=self.clock - 2)"),
    (ROW, "self.store.load_due(event=watermark)", "self.store.load_due(event=watermark - 1)"),
    (
        ROW,
        "            self.not_taken(key, timestamp, element)\n        if self.store.processing_queue.first() < self.clock:\n            self._run_processing_timers()",
        "            self.not_taken(key, timestamp, element)",
    ),
    (ROW, "        if clock > self.clock:\n            self.clock = clock\n", "        self.clock = clock\n        if True:\n"),
    (ROW, "slot.owner.page.dirty = True\n", "pass\n"),
    # merging
    (
        ROW,
        "                self._trigger.clear(slot.window, scope)\n                self._retire(slot)",
        "                self._trigger.clear(slot.window, scope)",
    ),
    (
        ROW,
        "                self._trigger.clear(slot.window, scope)\n                self._retire(slot)",
        "                self._retire(slot)",
    ),
    (ROW, "            self._trigger.on_merge(result, scope)\n", ""),
    (ROW, "self.logic.merge(merged.contents, contents)", "merged.contents"),
    (ROW, "self.logic.merge(merged.contents, contents)", "contents"),
    (ROW, "self.logic.merge(merged.contents, contents)", "self.logic.merge(contents, merged.contents)"),
    (
        ROW,
        "self._cleanup_time(result.max_timestamp()) <= self.watermark:\n            raise",
        "self._cleanup_time(result.max_timestamp()) < 0:\n            raise",
    ),
    (ROW, "        owner.latest = None  # what", "        pass  # what"),
    (MERGING, "unchanged = len(old) == 1 and", "unchanged = len(old) == 9 and"),
    (MERGING, "isinstance(target, TimeWindow) and bounds in self._slots", "False"),
    (MERGING, "for member in sorted(members) if member in live", "for member in sorted(members, reverse=True) if member in live"),
    (
        MERGING,
        "        for slot in old:\n            del self._slots[slot.bounds]\n",
        "        for slot in old[1:]:\n            del self._slots[slot.bounds]\n",
    ),
    (
        CONTEXTS,
        "            if value is not None:\n                state.add(value)",
        "            if value is not None:\n                cells = self.slot.trigger_cells\n                cells[descriptor.name] = value",
    ),
    (CONTEXTS, "self.slot.event_timers.times.discard(time)", "pass"),
    (CONTEXTS, "            self.slot.processing_timers.times.discard(time)", "            pass"),
    # evictors
    (ROW, "kept = evictor.evict_before(before, len(before), window, scope)", "kept = before"),
    (ROW, "        kept = evictor.evict_after(kept, len(kept), window, scope)\n", ""),
    (ROW, "        self._replace_elements(slot, before, kept)", "        pass"),
    (ROW, "slot.contents.drop_first(dropped)", "slot.contents.drop_first(dropped - 1)"),
    (EVICTORS, "if element[1] > cutoff]", "if element[1] >= cutoff]"),
    (EVICTORS, "if not delta(element.value, last) >= threshold]", "if not delta(element.value, last) > threshold]"),
    (EVICTORS, "delta(element.value, last) >=", "delta(last, element.value) >="),
    (EVICTORS, "max(0, len(elements) - self.max_count)", "max(0, len(elements) - self.max_count - 1)"),
    (EVICTORS, "max(timestamp for _, timestamp in elements)", "elements[-1].timestamp"),
    # the inner loops
    (
        FAST,
        "                _arm(operator, slot)\n            elif slot.contents is EMPTY:",
        "            elif slot.contents is EMPTY:",
    ),
    (
        FAST,
        "            if slot.max_timestamp <= watermark:\n                operator.fire(slot)\n                if purges:\n                    slot.contents = EMPTY\n    except",
        "            if slot.max_timestamp < watermark:\n                operator.fire(slot)\n                if purges:\n                    slot.contents = EMPTY\n    except",
    ),
    (
        FAST,
        "range(timestamp - (timestamp - offset) % slide, timestamp - size, -slide)",
        "range(timestamp - (timestamp - offset) % slide, timestamp - size - 1, -slide)",
    ),
    (
        FAST,
        "            if not taken:\n                operator.not_taken(key, timestamp, element)",
        "            if not taken and slot is not None:\n                operator.not_taken(key, timestamp, element)",
    ),
    (FAST, "hit = latest if timestamp <= latest.end else None", "hit = latest if timestamp < latest.end else None"),
    (FAST, "timestamp >= latest.start:", "True:"),
    (FAST, "slot.start <= end and slot.end >= start:", "slot.start < end and slot.end >= start:"),
    (FAST, "min(timestamp, hit.start), max(end, hit.end)", "min(timestamp, hit.start), end"),
    (FAST, "min(timestamp, hit.start), max(end, hit.end)", "hit.start, max(end, hit.end)"),
    (FAST, "    slot.event_timers.times.clear()\n", ""),
    (FAST, "    operator.set_cleanup(slot)\n", ""),
    (FAST, "            if seen < count:", "            if seen <= count:"),
    (FAST, '            cells.pop("count", None)\n', ""),
    (FAST, "    if slot.max_timestamp > operator.watermark:\n", "    if True:\n"),
    # timers and state at rest
    (TIMERS, "entries[0][0] <= until", "entries[0][0] < until"),
    (TIMERS, "            if timers.armed != time:\n                continue", "            if False:\n                continue"),
    (TIMERS, "        if time < timers.armed:", "        if time <= 0:"),
    (TIMERS, "            heapify(self._entries)", "            pass"),
    (TIMERS, "                timers.times.discard(time)\n", ""),
    (TIMERS, "                if goes:\n                    timers.cleanup = NEVER\n", ""),
    (STATE, "            self.processing_queue.load(slot.processing_timers)", "            pass"),
    (STATE, "            self.event_queue.load(slot.event_timers)", "            pass"),
    (STATE, "            self._open_timers(slot)\n", ""),
    (STATE, "        page.dirty = True\n", ""),
    (
        STATE,
        "                left = size - gone\n                self.chunks[0] = (segment, start + gone, left)",
        "                left = size - gone\n                self.chunks[0] = (segment, start, left)",
    ),
    (
        STATE,
        "        if self.tail:\n            self.chunks.append(self.tail)",
        "        if self.tail:\n            self.chunks.insert(0, self.tail)",
    ),
    (STATE, "segment in live and segment not in rewritten", "segment in live or segment not in rewritten"),
    (STATE, "        self.touched.clear()\n", ""),
    (STATE, "return not owner.slots and not owner.cells", "return not owner.slots"),
    # vocabulary
    (TRIGGERS + "count.py", "if seen.get() >= self.count:", "if seen.get() == self.count:"),
    (TRIGGERS + "count.py", "            seen.clear()\n", ""),
    (
        TRIGGERS + "time.py",
        "if window.max_timestamp() <= ctx.get_current_watermark():",
        "if window.max_timestamp() < ctx.get_current_watermark():",
    ),
    (TRIGGERS + "time.py", "if window.max_timestamp() > ctx.get_current_watermark():", "if True:"),
    (TRIGGERS + "continuous.py", "if time >= 0 else time + -time % interval", ""),
    (
        TRIGGERS + "continuous.py",
        'FIRE_TIME = ReducingStateDescriptor("fire-time", min)',
        'FIRE_TIME = ReducingStateDescriptor("fire-time", max)',
    ),
    (TRIGGERS + "delta.py", "> self.threshold", ">= self.threshold"),
    (
        TRIGGERS + "timeout.py",
        "        if result.is_fire():\n            self.clear(window, ctx)\n",
        "        if result.is_fire():\n",
    ),
    (TRIGGERS + "purging.py", "if result.is_fire() else result", "if result else result"),
    (
        ASSIGNERS + "sliding.py",
        "for start in range(last, time - self.size, -self.slide)",
        "for start in sorted(range(last, time - self.size, -self.slide))",
    ),
    (
        ASSIGNERS + "tumbling.py",
        "start = time - (time - self.offset) % self.size",
        "start = time - (time + self.offset) % self.size",
    ),
    (
        "windowing/windows.py",
        "self.start <= other.end and self.end >= other.start",
        "self.start < other.end and self.end > other.start",
    ),
]


def is_killed(mutant: tuple[str, str, str], folder: Path) -> str | None:
    """The first test that fails; None where all pass."""
    name, old, new = mutant
    path = folder / "panestream" / name
    text = path.read_text()
    if old not in text:
        return "NOT APPLICABLE: the text is not there"
    path.write_text(text.replace(old, new))
    try:
        arguments = ["-x", "-q", "-p", "no:cacheprovider", "-o", f"pythonpath={folder} {ROOT}", "-o", "filterwarnings=default"]
        environment = {
            **os.environ,
            "PANESTREAM_RANDOM_SCENARIOS": "240",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{folder}:{ROOT}",
        }
        command = [sys.executable, "-m", "pytest", *arguments, str(ROOT / "tests/row")]
        found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return "does not end"
    finally:
        path.write_text(text)
    failed = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return None if found.returncode == 0 else (failed or [found.stdout[-200:] + found.stderr[-200:]])[0]


def main(words: list[str]) -> int:
    """Runs the mutants; the exit status says whether at least 95 % were killed."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in " ".join(mutant) for word in words)]
    survivors = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "src" / "panestream", folder / "panestream")
        for at, mutant in enumerate(chosen):
            killer = is_killed(mutant, folder)
            if killer is None or killer.startswith("NOT"):
                survivors.append(mutant)
            print(f"{at + 1}/{len(chosen)} {mutant[0]}: {mutant[2][:60]!r}: {killer or 'SURVIVED'}"[:220], flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} killed")
    for survivor in survivors:
        print("survivor:", *survivor, sep="\n    ")
    return 1 if len(survivors) > len(chosen) * 0.05 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
