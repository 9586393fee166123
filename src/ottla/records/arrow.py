"""Arrow columns to record batches and back, without a Python object per record.

Needs pyarrow (`pip install 'ottla[arrow]'`): nothing that a plain installation uses imports this.
"""

from ottla.records.arrow_decoder import DecodedColumns, RecordColumns, decode_batches, is_data
from ottla.records.arrow_encoder import ColumnsEncoder, EncodedBatch
from ottla.records.arrow_schema import SCHEMA, SCHEMA_WITHOUT_HEADERS

__all__ = [
    "SCHEMA",
    "SCHEMA_WITHOUT_HEADERS",
    "ColumnsEncoder",
    "DecodedColumns",
    "EncodedBatch",
    "RecordColumns",
    "decode_batches",
    "is_data",
]
