"""Where records go that cannot be read: a topic of their own, in the same transaction as the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.spark.pipeline.formats import ERROR, VALUE, Format

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ERROR_HEADER: Final = "ottla.error"
PLACE_HEADERS: Final = {
    "ottla.topic": "topic",
    "ottla.partition": "partition",
    "ottla.offset": "offset",
}
_PARSED: Final = "_ottla_parsed"


def parsed(records: DataFrame, values: Format) -> DataFrame:
    """The records with a column that has their value or their error."""
    from pyspark.sql import functions as f

    return records.withColumn(_PARSED, values.parsed(f.col("value")))


def readable(records: DataFrame) -> DataFrame:
    """Those of `parsed` that could be read; `value` is what they say."""
    from pyspark.sql import functions as f

    good = records.where(f.col(f"{_PARSED}.{ERROR}").isNull())
    return good.withColumn("value", f.col(f"{_PARSED}.{VALUE}")).drop(_PARSED)


def all_readable(records: DataFrame) -> DataFrame:
    """As `readable`, where a record that cannot be read fails the query: without a place for it, it would be lost."""
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
    # A condition, because a column that nobody uses would not be computed, and so not checked.
    passes = f.when(failed, f.raise_error(message).cast("boolean")).otherwise(f.lit(True))
    return readable(records.where(passes))


def unreadable(records: DataFrame, topic: str) -> DataFrame:
    """Those of `parsed` that could not be read, as they came, with headers that say why and where from."""
    from pyspark.sql import functions as f

    bad = records.where(f.col(f"{_PARSED}.{ERROR}").isNotNull())
    headers = f.array(
        _header(ERROR_HEADER, f.col(f"{_PARSED}.{ERROR}")),
        *(_header(name, f.col(column)) for name, column in PLACE_HEADERS.items()),
    )
    theirs = f.coalesce(f.col("headers"), f.array().cast(_HEADERS_TYPE))
    return bad.select(
        "key", "value", f.concat(theirs, headers).alias("headers"), f.lit(topic).alias("topic")
    )


_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"


def _header(name: str, value: Column) -> Column:
    from pyspark.sql import functions as f

    return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
