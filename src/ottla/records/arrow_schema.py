"""The Arrow schema of records, and pyarrow, which is an optional dependency."""

from typing import Final

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("Arrow columns need pyarrow: pip install 'ottla[arrow]'") from error

__all__ = ["SCHEMA", "SCHEMA_WITHOUT_HEADERS", "UNITS_PER_MS", "pa"]

_HEADER_TYPE: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])

SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.field("element", _HEADER_TYPE))),
    ]
)
"""The columns of Spark's own Kafka source with includeHeaders, with Spark's types."""

SCHEMA_WITHOUT_HEADERS: Final = SCHEMA.remove(SCHEMA.get_field_index("headers"))

UNITS_PER_MS: Final = {"s": -1000, "ms": 1, "us": 1000, "ns": 1_000_000}
"""Of Arrow's units of time; negative: the number of milliseconds in a unit."""
