"""Ottla's source and sink for Spark: `format("ottla")`, batch and streaming, without a jar.

spark.readStream.format("ottla").option("kafka.bootstrap.servers", "127.0.0.1:9092")
    .option("subscribe", "orders").load()
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from ottla.spark.requirement import SparkMissingError, require_spark

if TYPE_CHECKING:
    from ottla.spark.avro import Avro
    from ottla.spark.datasource import OttlaDataSource
    from ottla.spark.formats import Json
    from ottla.spark.lag import LagListener, QueryLag
    from ottla.spark.pipeline import Pipeline
    from ottla.spark.reporting import Progress
    from ottla.spark.session import start_session
    from ottla.spark.supervising import PipelineError, PipelineTakenOverError

__all__ = [
    "Avro",
    "Json",
    "LagListener",
    "OttlaDataSource",
    "Pipeline",
    "PipelineError",
    "PipelineTakenOverError",
    "Progress",
    "QueryLag",
    "SparkMissingError",
    "start_session",
]

_HOMES: Final = {
    "Avro": "ottla.spark.avro",
    "Json": "ottla.spark.formats",
    "LagListener": "ottla.spark.lag",
    "OttlaDataSource": "ottla.spark.datasource",
    "Pipeline": "ottla.spark.pipeline",
    "PipelineError": "ottla.spark.supervising",
    "PipelineTakenOverError": "ottla.spark.supervising",
    "Progress": "ottla.spark.reporting",
    "QueryLag": "ottla.spark.lag",
    "start_session": "ottla.spark.session",
}


# Names are imported on first use: what needs no Spark can be used, and tested, without it.
def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla.spark' has no attribute {name!r}")
    require_spark()
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__doc__"]
