"""The rows that a Pipeline writes: parsed, transformed, encoded, and dead letters beside them.

Records that cannot be parsed go to the dead-letter topic in the same transaction as the rest, or fail the query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.errors import ConfigError
from ottla.spark.pipeline.formats import ERROR, VALUE
from ottla.spark.pipeline.query_options import source_options, wants_headers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from ottla.spark.pipeline.pipeline import Pipeline

ERROR_HEADER: Final = "ottla.error"
PLACE_HEADERS: Final = {
    "ottla.topic": "topic",
    "ottla.partition": "partition",
    "ottla.offset": "offset",
}
_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"
_PARSED: Final = "_ottla_parsed"
_WRITTEN: Final = ("key", "value", "headers")


def output_rows(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    """The rows for the sink: key, value, headers and topic."""
    from pyspark.sql import functions as f

    records = _source_rows(pipeline, spark)
    if pipeline.values is None:
        return _transformed(pipeline, records).withColumn("topic", f.lit(pipeline.sink))
    parsed = records.withColumn(_PARSED, pipeline.values.parsed(f.col("value")))
    if pipeline.dead_letter is None:
        good = _parsed_or_fail(parsed)
        return _transformed(pipeline, good).withColumn("topic", f.lit(pipeline.sink))
    good = _parsed_only(parsed)
    if not wants_headers(pipeline):
        good = good.drop("headers")
    rows = _transformed(pipeline, good).withColumn("topic", f.lit(pipeline.sink))
    return rows.unionByName(_dead_letters(parsed, pipeline.dead_letter), allowMissingColumns=True)


def _source_rows(pipeline: Pipeline, spark: SparkSession) -> DataFrame:
    if callable(pipeline.source):
        return pipeline.source(spark)
    options = source_options(pipeline, pipeline.source)
    return spark.readStream.format("ottla").options(**options).load()


def _transformed(pipeline: Pipeline, records: DataFrame) -> DataFrame:
    """The rows that `transform` returns, with encoded values."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BinaryType, NullType, StringType

    rows = records if pipeline.transform is None else pipeline.transform(records)
    if not hasattr(rows, "columns"):
        raise ConfigError(
            f"transform of pipeline {pipeline.name} returned {type(rows).__name__} and not a DataFrame: is a return "
            "missing?"
        )
    if "value" not in rows.columns:
        raise ConfigError(
            f"transform left no column 'value', only {rows.columns}: make one, as in "
            "df.select('key', struct('customer', 'total').alias('value'))"
        )
    rows = rows.select(*(name for name in _WRITTEN if name in rows.columns))
    kind = rows.schema["value"].dataType
    if isinstance(kind, BinaryType | StringType | NullType):
        return rows.withColumn("value", f.col("value").cast("binary"))
    values = pipeline.sink_values or pipeline.values
    if values is None:
        raise ConfigError(
            f"the column 'value' is {kind.simpleString()}, not bytes or text: give sink_values, as in Json(…)"
        )
    return rows.withColumn("value", values.encoded(f.col("value"), kind))


def _parsed_only(parsed: DataFrame) -> DataFrame:
    """The records that could be parsed, with the parsed value in `value`."""
    from pyspark.sql import functions as f

    good = parsed.where(f.col(f"{_PARSED}.{ERROR}").isNull())
    return good.withColumn("value", f.col(f"{_PARSED}.{VALUE}")).drop(_PARSED)


def _parsed_or_fail(parsed: DataFrame) -> DataFrame:
    """As `_parsed_only`; a record that cannot be parsed fails the query, because nothing would keep it."""
    from pyspark.sql import functions as f

    place = f.concat_ws(
        " ", f.lit("topic"), "topic", f.lit("partition"), "partition", f.lit("offset"), "offset"
    )
    message = f.concat(
        place,
        f.lit(": "),
        f.col(f"{_PARSED}.{ERROR}"),
        f.lit(". Give the pipeline a dead_letter topic to go on"),
    )
    failed = f.col(f"{_PARSED}.{ERROR}").isNotNull()
    # In a condition, because Spark does not compute a column that the query does not use.
    passes = f.when(failed, f.raise_error(message).cast("boolean")).otherwise(f.lit(True))
    return _parsed_only(parsed.where(passes))


def _dead_letters(parsed: DataFrame, topic: str) -> DataFrame:
    """The records that could not be parsed, unchanged, with headers that say why and where they came from."""
    from pyspark.sql import functions as f

    bad = parsed.where(f.col(f"{_PARSED}.{ERROR}").isNotNull())
    added = f.array(
        _header(ERROR_HEADER, f.col(f"{_PARSED}.{ERROR}")),
        *(_header(name, f.col(column)) for name, column in PLACE_HEADERS.items()),
    )
    original = f.coalesce(f.col("headers"), f.array().cast(_HEADERS_TYPE))
    return bad.select(
        "key", "value", f.concat(original, added).alias("headers"), f.lit(topic).alias("topic")
    )


def _header(name: str, value: Column) -> Column:
    from pyspark.sql import functions as f

    return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
