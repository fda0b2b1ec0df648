"""What an error of Spark's says, in a line. Spark need not be there for it, so its classes are not asked for."""

from __future__ import annotations

import re


def of_spark(error: BaseException) -> bool:
    """Whether Spark raised it."""
    return any(cls.__module__.split(".")[0] in ("pyspark", "py4j", "grpc") for cls in type(error).__mro__)


def words_of(error: BaseException) -> str:
    """All that an error of Spark's says."""
    # What PySpark did not translate into an error of its own begins with py4j's words; Java knows better.
    java = getattr(error, "java_exception", None)
    return str(error) if java is None else str(java.getMessage())


def first_sentence(error: BaseException) -> str:
    """What an error of Spark's says, without its plan and stack; what a Python worker said, where one failed."""
    words = words_of(error)
    lines = [line.strip() for line in words.splitlines()]
    raised = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception): ", line)]
    if raised and "Traceback (most recent call last)" in words:
        return raised[-1]
    said = next((line for line in lines if line), type(error).__name__)
    return said.split(" SQLSTATE: ")[0].removesuffix(";").strip()
