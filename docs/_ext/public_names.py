"""The page of the reference for each public name. All names of a package are on its page, so that new names are included."""

from __future__ import annotations

import importlib
from types import ModuleType

import panestream
from panestream.lazy_names import LazyNames

# The page by the start of a name's module. The longest match counts.
ROOMS: dict[str, str] = {
    "panestream.datastream": "streams",
    "panestream.datastream.kafka": "kafka",
    "panestream.spark.kafka": "kafka",
    "panestream.spark.sinks": "sinks",
    "panestream.spark.sinks.kafka": "kafka",
    "panestream.spark.query": "running",
    "panestream.spark.progress": "running",
    "panestream.spark.open_lineage": "running",
    "panestream.spark.session": "running",
    "panestream.order": "streams",
    "panestream.spark.savepoint": "savepoints",
    "panestream.windowing.assigners": "assigners",
    "panestream.windowing.triggers": "triggers",
    "panestream.windowing.evictors": "evictors",
    "panestream.windowing.functions": "functions",
    "panestream.windowing.process_functions": "functions",
    "panestream.windowing.state": "functions",
    "panestream.windowing.aggregates": "aggregates",
    "panestream.windowing.watermarks": "time",
    "panestream.windowing.windows": "time",
    "panestream.windowing.time": "time",
    "panestream.tracing": "looking",
    "panestream.insight": "looking",
    "panestream.testing": "testing",
    "panestream.metrics": "metrics",
    "panestream.errors": "errors",
}
# In their own packages, `import *` would import too much. The list is in the module.
OF_MODULES = {"agg": "aggregates", "testing": "testing", "metrics": "metrics", "errors": "errors"}
# Objects that users receive and do not make are shown without a constructor.
GIVEN = {
    *(
        "datastream.DataStream",
        "datastream.KeyedStream",
        "datastream.KafkaStream",
        "datastream.WindowedStream",
        "datastream.WindowedResult",
        "datastream.PreparedQuery",
        "RunningQuery",
    ),
    *(
        "BatchProgress",
        "datastream.PartitionProgress",
        "state.CheckpointState",
        "state.Savepoint",
        "tools.Trace",
        "tools.Timeline",
        "tools.Lateness",
        "tools.DelayCost",
    ),
    *("sinks.Compaction", "datastream.StoredPanes"),
    *(
        "functions.WindowContext",
        "evictors.EvictorContext",
        "triggers.TriggerContext",
        "triggers.OnMergeContext",
        "functions.WatermarkOutput",
        "functions.WindowFunctionError",
    ),
    *("errors.PlanMismatchError", "errors.StateDamagedError", "testing.WindowResult", "testing.LateElement", "testing.Snapshot"),
    "testing.Simulation",
}
NOT_SHOWN = {"did_you_mean"}


def page_of(home: str) -> str | None:
    """Return the page of a name from this module."""
    fitting = [room for room in ROOMS if home == room or home.startswith(room + ".")]
    return ROOMS[max(fitting, key=len)] if fitting else None


def names_by_page() -> dict[str, list[str]]:
    """Return the dotted names after ``panestream.`` of each page, in the order of the public list."""
    found: dict[str, list[str]] = {}
    for name, page in OF_MODULES.items():
        found.setdefault(page, []).extend(f"{name}.{each}" for each in _of_module(getattr(panestream, name)))
    for dotted, home in homes().items():
        page = page_of(home)
        if page is None:
            raise LookupError(f"{dotted} is from {home}: docs/_ext/public_names.py does not say on which page it belongs")
        found.setdefault(page, []).append(dotted)
    # Functions come first, and the main names of a page are first among them.
    return {
        page: sorted(names, key=lambda name: (name != "stream", not name.rpartition(".")[2].islower()))
        for page, names in found.items()
    }


def homes() -> dict[str, str]:
    """Return the module of each public name. The key is the name at the top level, and ``namespace.name`` otherwise."""
    own = {name: home for name, (home, _) in LazyNames("panestream").homes.items()}
    own = {name: home for name, home in own.items() if not isinstance(getattr(panestream, name), ModuleType)}
    for namespace in panestream._NAMESPACES:  # noqa: SLF001 - the same
        module = getattr(panestream, namespace)
        lazy = getattr(module, "_NAMES", None)
        for name in module.__all__:
            if name not in own:
                home = lazy.homes[name][0] if lazy else getattr(getattr(module, name), "__module__", module.__name__)
                own[f"{namespace}.{name}"] = home
    return own


def members(cls: type) -> list[str]:
    """Return the members that the entry of a class shows: those that it defines and documents, and inherited factory methods."""
    own = [name for name, value in vars(cls).items() if name[0] != "_" and _described(value)]
    made = [
        name
        for base in cls.__mro__[1:]
        if base.__module__.startswith("panestream")
        for name, value in vars(base).items()
        if name[0] != "_" and isinstance(value, (classmethod, staticmethod)) and name not in vars(cls) and _described(value)
    ]
    return [*own, *dict.fromkeys(made)]


def _described(value: object) -> bool:
    inner = getattr(value, "__func__", value)
    inner = getattr(inner, "fget", None) or getattr(inner, "func", inner)
    return bool(getattr(inner, "__doc__", None)) and (callable(inner) or isinstance(value, property))


def _of_module(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is None:
        own = vars(importlib.import_module(module.__name__))
        listed = [name for name, value in own.items() if getattr(value, "__module__", "") == module.__name__ and name[0] != "_"]
    return [name for name in listed if name not in NOT_SHOWN]
