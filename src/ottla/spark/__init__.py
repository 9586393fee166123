"""Ottla's source and sink for Spark: `format("ottla")`, batch and streaming, without a jar.

spark.readStream.format("ottla").option("kafka.bootstrap.servers", servers).option("subscribe", "orders").load()

`source` reads, `sink` writes, `pipeline` is the class Pipeline and its supervision, `runtime` starts Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from ottla.spark.runtime.requirement import SparkMissingError, require_spark

if TYPE_CHECKING:
    from ottla.spark.datasource import OttlaDataSource
    from ottla.spark.pipeline.avro import Avro
    from ottla.spark.pipeline.failure_policy import PipelineError, PipelineTakenOverError
    from ottla.spark.pipeline.formats import Json
    from ottla.spark.pipeline.pipeline import Pipeline
    from ottla.spark.pipeline.progress_report import Progress
    from ottla.spark.runtime.session import start_session
    from ottla.spark.source.lag import LagListener, QueryLag

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
    "Avro": "ottla.spark.pipeline.avro",
    "Json": "ottla.spark.pipeline.formats",
    "LagListener": "ottla.spark.source.lag",
    "OttlaDataSource": "ottla.spark.datasource",
    "Pipeline": "ottla.spark.pipeline.pipeline",
    "PipelineError": "ottla.spark.pipeline.failure_policy",
    "PipelineTakenOverError": "ottla.spark.pipeline.failure_policy",
    "Progress": "ottla.spark.pipeline.progress_report",
    "QueryLag": "ottla.spark.source.lag",
    "start_session": "ottla.spark.runtime.session",
}


# Names are imported on first use, so that modules that do not need Spark can be used and tested without it.
def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla.spark' has no attribute {name!r}")
    require_spark()
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__doc__"]
