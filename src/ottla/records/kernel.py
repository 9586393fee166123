"""The record kernel: the compiled one where it was built, else the pure Python one."""

import os
from collections.abc import Callable
from typing import Final

from ottla.records import _kernel_py
from ottla.records.record import Buffer

if os.environ.get("OTTLA_PURE") == "1":
    _chosen = _kernel_py
else:
    try:
        from ottla.records import _kernel as _chosen  # type: ignore[no-redef]
    except ImportError:
        _chosen = _kernel_py

COMPILED: Final[bool] = _chosen is not _kernel_py

encode_records = _chosen.encode_records
decode_records = _chosen.decode_records
scan_records = _chosen.scan_records
find_by_time = _chosen.find_by_time
records_end = _chosen.records_end
inspect_batch = _chosen.inspect_batch
plain_header = _chosen.plain_header
join_batches = _chosen.join_batches

# The pure kernel has none: `ottla.records.crc` then looks for another package's.
compiled_crc32c: Callable[[Buffer, int], int] | None = getattr(_chosen, "crc32c", None)
compiled_crc32c_shifted: Callable[[int, int], int] | None = getattr(_chosen, "crc32c_shifted", None)
