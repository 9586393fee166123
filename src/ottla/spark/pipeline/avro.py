"""Avro values, by fastavro on Arrow columns: the PySpark package has no jar for Avro."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from datetime import time
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.errors import ConfigError
from ottla.spark.pipeline.formats import ERROR, VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

Convert = Callable[[Any], Any]

_PLAIN: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL: Final[Mapping[str, pa.DataType]] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}
_NOT_AVRO: Final = "the value is not Avro of the schema"
# Times of day are numbers, as in Spark's own reader of Avro.
_TIMES: Final[Mapping[str, int]] = {"time-millis": 1000, "time-micros": 1}


class Avro:
    """Values that are one Avro datum each, of this schema (as JSON text or parsed); needs fastavro."""

    def __init__(self, schema: str | Mapping[str, Any]) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        _fastavro()
        self._text = text
        arrow_type(text)  # an unsupported schema is refused here, not in a task

    def parsed(self, value: Column) -> Column:
        """A struct of `value` and `error`."""
        from pyspark.sql.pandas.functions import arrow_udf
        from pyspark.sql.pandas.types import from_arrow_type
        from pyspark.sql.types import StringType, StructField, StructType

        text = self._text

        def parse(values: pa.Array) -> pa.Array:
            from ottla.spark.pipeline.avro import decode

            return decode(values, text)

        kind = from_arrow_type(arrow_type(text))
        both = StructType([StructField(VALUE, kind), StructField(ERROR, StringType())])
        # A nondeterministic function is called once; otherwise Spark calls it for each use of its result.
        read = arrow_udf(parse, both)  # type: ignore[call-overload]  # its stub lacks the form with type hints
        made: Column = read.asNondeterministic()(value)
        return made

    def encoded(self, value: Column, kind: DataType) -> Column:
        """One datum each."""
        from pyspark.sql.pandas.functions import arrow_udf
        from pyspark.sql.types import BinaryType

        text = self._text

        def write(values: pa.Array) -> pa.Array:
            from ottla.spark.pipeline.avro import encode

            return encode(values, text)

        made: Column = arrow_udf(write, BinaryType())(value)  # type: ignore[call-overload]
        return made


def decode(values: pa.Array, schema: str) -> pa.Array:
    """Structs of value and error, of binary values."""
    fastavro = _fastavro()
    parsed = fastavro.parse_schema(json.loads(schema))
    kind, convert = _resolved(json.loads(schema))
    found: list[Any] = []
    errors: list[str | None] = []
    for datum in values.to_pylist():
        value, error = None, None
        if datum is not None:
            try:
                value = convert(_read(fastavro, parsed, datum))
            # fastavro does not validate its input, and garbage fails in many ways.
            except Exception as failure:
                error = f"{_NOT_AVRO}: {type(failure).__name__}: {failure}"
        found.append(value)
        errors.append(error)
    return pa.StructArray.from_arrays(
        [_column(found, errors, kind), pa.array(errors, pa.string())],
        fields=[pa.field(VALUE, kind), pa.field(ERROR, pa.string())],
    )


def _column(found: list[Any], errors: list[str | None], kind: pa.DataType) -> pa.Array:
    """The column; values that it cannot hold become errors: garbage may parse as an int of more than 32 bits."""
    try:
        return pa.array(found, kind)
    except (pa.ArrowException, OverflowError, ValueError):
        pass
    for at, value in enumerate(found):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, OverflowError, ValueError) as failure:
            found[at], errors[at] = None, f"{_NOT_AVRO}: {failure}"
    return pa.array(found, kind)


def _read(fastavro: Any, parsed: Any, datum: bytes) -> Any:
    file = io.BytesIO(datum)
    value = fastavro.schemaless_reader(file, parsed, None)
    if left := len(datum) - file.tell():
        raise ValueError(f"{left} bytes are left over")
    return value


def encode(values: pa.Array, schema: str) -> pa.Array:
    """Binary values."""
    fastavro = _fastavro()
    parsed = fastavro.parse_schema(json.loads(schema))
    back = _writable(values.type)
    found: list[bytes | None] = []
    for value in values.to_pylist():
        if value is None:
            found.append(None)
            continue
        file = io.BytesIO()
        fastavro.schemaless_writer(file, parsed, back(value))
        found.append(file.getvalue())
    return pa.array(found, pa.binary())


def arrow_type(schema: str) -> pa.DataType:
    """The Arrow type of a schema; a ConfigError says what a column cannot hold."""
    try:
        read = json.loads(schema)
        _fastavro().parse_schema(read)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"this is no Avro schema: {error}") from error
    return _resolved(json.loads(schema))[0]


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError as error:
        raise ConfigError(
            "Avro values need the package fastavro: pip install 'ottla[avro]'"
        ) from error
    return fastavro


def _same(value: Any) -> Any:
    return value


def _resolved(schema: Any) -> tuple[pa.DataType, Convert]:
    return _Types().of(schema, "the schema", "")


class _Types:
    """Arrow types of Avro schemas, and functions that convert fastavro's values for Arrow."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[pa.DataType, Convert] | None] = {}

    def of(self, schema: Any, place: str, space: str) -> tuple[pa.DataType, Convert]:
        """`place` is for messages, `space` is the enclosing namespace."""
        if isinstance(schema, str):
            if schema in _PLAIN:
                return _PLAIN[schema], _same
            return self._reference(schema, place, space)
        if isinstance(schema, list):
            return self._union(schema, place, space)
        kind = schema["type"]
        if isinstance(kind, list | dict):
            return self.of(kind, place, space)
        if (logical := self._logical(schema)) is not None:
            return self._declared(schema, space, logical)
        if kind == "array":
            item, convert = self.of(schema["items"], f"{place}, items", space)
            return pa.list_(item), lambda values: [
                None if each is None else convert(each) for each in values
            ]
        if kind == "map":
            item, convert = self.of(schema["values"], f"{place}, values", space)
            return pa.map_(pa.string(), item), lambda values: [
                (key, None if each is None else convert(each)) for key, each in values.items()
            ]
        if kind == "record":
            return self._record(schema, space)
        return self._declared(schema, space, self.of(kind, place, space))

    def _reference(self, name: str, place: str, space: str) -> tuple[pa.DataType, Convert]:
        full = name if "." in name or not space else f"{space}.{name}"
        known = self._named.get(full, self._named.get(name))
        if known is None:
            raise ConfigError(
                f"{place} is of the type {name}, which contains itself: a column cannot"
            )
        return known

    def _union(self, schema: list[Any], place: str, space: str) -> tuple[pa.DataType, Convert]:
        others = [each for each in schema if each != "null"]
        if len(others) > 1:
            raise ConfigError(
                f"{place} is a union of several types, which a column cannot be: use null and one type"
            )
        return self.of(others[0] if others else "null", place, space)

    @staticmethod
    def _logical(schema: Mapping[str, Any]) -> tuple[pa.DataType, Convert] | None:
        logical = schema.get("logicalType", "")
        if logical in _TIMES:
            unit_us = _TIMES[logical]
            return pa.int32() if unit_us > 1 else pa.int64(), lambda at: _micros(at) // unit_us
        if logical == "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0)), _same
        if logical in _LOGICAL:
            return _LOGICAL[logical], str if logical == "uuid" else _same
        return None

    def _declared(
        self, schema: Mapping[str, Any], space: str, known: tuple[pa.DataType, Convert]
    ) -> tuple[pa.DataType, Convert]:
        if "name" in schema:
            self._named[_full_name(schema, space)[0]] = known
        return known

    def _record(self, schema: Mapping[str, Any], space: str) -> tuple[pa.DataType, Convert]:
        full, inner = _full_name(schema, space)
        self._named[full] = None
        fields, converts = [], []
        for each in schema["fields"]:
            kind, convert = self.of(each["type"], f"the field {each['name']}", inner)
            fields.append(pa.field(each["name"], kind))
            converts.append((each["name"], convert))

        def converted(value: Mapping[str, Any]) -> dict[str, Any]:
            return {
                name: None if value[name] is None else convert(value[name])
                for name, convert in converts
            }

        self._named[full] = (pa.struct(fields), converted)
        return pa.struct(fields), converted


def _full_name(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """The full name, and the namespace for the types inside."""
    name: str = schema["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = schema.get("namespace", space)
    return (f"{inner}.{name}" if inner else name), inner


def _micros(at: time) -> int:
    return ((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + at.microsecond


def _writable(kind: pa.DataType) -> Convert:
    """A function that converts Arrow's Python values for fastavro: maps become dicts."""
    if pa.types.is_map(kind):
        item = _writable(kind.item_type)
        return lambda pairs: {key: None if each is None else item(each) for key, each in pairs}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = _writable(kind.value_type)
        return lambda values: [None if each is None else item(each) for each in values]
    if pa.types.is_struct(kind):
        parts = {field.name: _writable(field.type) for field in kind}
        return lambda value: {
            name: None if value[name] is None else part(value[name]) for name, part in parts.items()
        }
    return _same
