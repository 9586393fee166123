"""The record kernel: the compiled one where it was built, else the pure Python one."""

import os
from typing import Final

from ottla.records import _kernel_py

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
