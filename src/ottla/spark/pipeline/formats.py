"""The formats of values. JSON here, Avro in `ottla.spark.pipeline.avro`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from ottla.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

VALUE: Final = "value"
ERROR: Final = "error"
_CORRUPT: Final = "_ottla_corrupt"
_OBJECT: Final = "_ottla_object"
_END: Final = "_ottla_end"


class Format(Protocol):
    """Parses bytes to columns, and encodes columns as bytes."""

    def parsed(self, value: Column) -> Column:
        """A struct of `value`, null if it cannot be parsed, and `error`, null if it can; null bytes are a null
        value."""

    def encoded(self, value: Column, kind: DataType) -> Column:
        """The bytes of a column of this type; a null value stays null."""


class Json:
    """Values that are JSON objects with these fields: a DDL string or a StructType.

    A value that is not valid UTF-8, is not one object, or has a field of another type cannot be parsed. Fields that the
    schema does not have are left out, missing ones are null, as in Spark's `from_json`.
    """

    def __init__(self, schema: str | StructType) -> None:
        self._schema = schema

    def parsed(self, value: Column) -> Column:
        """A struct of `value` and `error`."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import BooleanType, StringType, StructField, StructType

        wanted = self._fields()
        # Spark's parser stops at the end of an object and ignores trailing text. Inside a larger object, trailing text
        # is an error, or ends the larger object too early.
        schema = StructType(
            [
                StructField(_OBJECT, wanted),
                StructField(_END, BooleanType()),
                StructField(_CORRUPT, StringType()),
            ]
        )
        text = f.concat(f.lit(f'{{"{_OBJECT}":'), value.cast("string"), f.lit(f',"{_END}":true}}'))
        read = f.from_json(
            text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        )
        error = (
            f.when(value.isNull(), f.lit(None))
            .when(~f.is_valid_utf8(value), f.lit("the value is not UTF-8"))
            .when(
                read[_OBJECT].isNull() | read[_END].isNull() | read[_CORRUPT].isNotNull(),
                f.lit(f"the value is not a JSON object of {wanted.simpleString()}"),
            )
        )
        known = f.when(error.isNull(), read[_OBJECT]).otherwise(f.lit(None))
        return f.struct(known.alias(VALUE), error.alias(ERROR))

    def encoded(self, value: Column, kind: DataType) -> Column:
        """JSON text, without the fields that are null."""
        from pyspark.sql import functions as f

        return f.to_json(value).cast("binary")

    def _fields(self) -> StructType:
        from pyspark.sql.types import StructType

        if not isinstance(self._schema, str):
            return self._schema
        read = StructType.fromDDL(self._schema)
        if not isinstance(read, StructType):
            raise ConfigError(
                f"Json({self._schema!r}) names no fields: write them as in 'id LONG, name STRING'"
            )
        return read
