"""Ottla's source and sink for Spark: `format("ottla")`, batch and streaming, without a jar.

spark.readStream.format("ottla").option("kafka.bootstrap.servers", "127.0.0.1:9092")
    .option("subscribe", "orders").load()
"""

from importlib import import_module
from typing import Final

_HOMES: Final = {
    "Avro": "ottla.spark.avro",
    "Json": "ottla.spark.formats",
    "OttlaDataSource": "ottla.spark.datasource",
    "Pipeline": "ottla.spark.pipeline",
    "PipelineError": "ottla.spark.supervising",
    "PipelineTakenOverError": "ottla.spark.supervising",
    "Progress": "ottla.spark.reporting",
    "start_session": "ottla.spark.session",
}

__all__ = sorted(_HOMES)


# Names are imported on first use: what needs no Spark can be used, and tested, without it.
def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla.spark' has no attribute {name!r}")
    from ottla.spark.requirement import require_spark

    require_spark()
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__doc__"]
