"""Delta, Iceberg and Kafka for the installed Spark: Maven packages, and the settings that Spark needs for them.

Only this file lists which release of each component was built for which Spark. Some Sparks lack some components.
"""

from __future__ import annotations

from pathlib import Path

import pyspark

LINE = ".".join(pyspark.__version__.split(".")[:2])

DELTA = {
    "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
}
ICEBERG = {
    "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
    "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
KAFKA = {
    "4.0": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "4.1": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1",
    "4.2": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
}
AVRO = {
    "4.0": "org.apache.spark:spark-avro_2.13:4.0.0",
    "4.1": "org.apache.spark:spark-avro_2.13:4.1.1",
    "4.2": "org.apache.spark:spark-avro_2.13:4.2.0",
}
ICEBERG_CATALOG = "ice"
"""Iceberg tables are ``ice.db.table``. Delta uses the session's own catalog."""


def packages() -> dict[str, str]:
    """Return the coordinates of the components for this Spark, by component."""
    every = {"delta": DELTA, "iceberg": ICEBERG, "kafka": KAFKA, "avro": AVRO}
    return {name: found[LINE] for name, found in every.items() if LINE in found}


def session_settings(warehouse: Path) -> dict[str, str]:
    """Return the settings of a session with all components for this Spark."""
    there = packages()
    settings = {
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        # Tables have only a few files. Most time goes into tasks without work.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.jars.packages": ",".join(there.values()),
    }
    extensions = []
    if "delta" in there:
        extensions.append("io.delta.sql.DeltaSparkSessionExtension")
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    if "iceberg" in there:
        extensions.append("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        catalog = f"spark.sql.catalog.{ICEBERG_CATALOG}"
        settings[catalog] = "org.apache.iceberg.spark.SparkCatalog"
        settings[f"{catalog}.type"] = "hadoop"
        settings[f"{catalog}.warehouse"] = str(warehouse / "iceberg")
    if extensions:
        settings["spark.sql.extensions"] = ",".join(extensions)
    return settings
