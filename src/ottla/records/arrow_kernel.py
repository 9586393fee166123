"""The Arrow part of the record kernel: compiled where it was built, else pure Python."""

import os
from typing import TYPE_CHECKING, Final

# Both have the same classes; types are taken from the pure one.
if TYPE_CHECKING or os.environ.get("OTTLA_PURE") == "1":
    from ottla.records import _arrow_kernel_py as _chosen
else:
    try:
        from ottla.records import _arrow_kernel as _chosen
    except ImportError:
        from ottla.records import _arrow_kernel_py as _chosen
    if not hasattr(_chosen, "repeated_numbers"):
        # It was built from an older source, and does not fit this one.
        from ottla.records import _arrow_kernel_py as _chosen

COMPILED: Final[bool] = _chosen.__name__ == "ottla.records._arrow_kernel"

ColumnsBuilder = _chosen.ColumnsBuilder
SectionsEncoder = _chosen.SectionsEncoder
free_spare_memory = _chosen.free_spare_memory
repeated_numbers = _chosen.repeated_numbers
