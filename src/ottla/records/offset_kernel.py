"""The kernel of committed offsets: the compiled one where it was built, else the one in Python."""

import os
from typing import Final

from ottla.records import _offset_kernel_py

if os.environ.get("OTTLA_PURE") == "1":
    _chosen = _offset_kernel_py
else:
    try:
        from ottla.records import _offset_kernel as _chosen  # type: ignore[no-redef, attr-defined]
    except ImportError:
        _chosen = _offset_kernel_py

COMPILED: Final[bool] = _chosen is not _offset_kernel_py

encode_offsets = _chosen.encode_offsets
put_offsets = _chosen.put_offsets
