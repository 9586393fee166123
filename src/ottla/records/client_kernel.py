"""The client's part of the record kernel: compiled where it was built, else pure Python."""

import os
from typing import TYPE_CHECKING, Final

# Both have the same functions and classes; types are taken from the pure one.
if TYPE_CHECKING or os.environ.get("OTTLA_PURE") == "1":
    from ottla.records import _client_kernel_py as _chosen
else:
    try:
        from ottla.records import _client_kernel as _chosen
    except ImportError:
        from ottla.records import _client_kernel_py as _chosen
    if not hasattr(_chosen, "whole_batches"):
        # It was built from an older source, and does not fit this one.
        from ottla.records import _client_kernel_py as _chosen

COMPILED: Final[bool] = _chosen.__name__ == "ottla.records._client_kernel"

Callbacks = _chosen.Callbacks
FrameMemory = _chosen.FrameMemory
QuickWriter = _chosen.QuickWriter
RecordsBuilder = _chosen.RecordsBuilder
RecordsReader = _chosen.RecordsReader
SentRecord = _chosen.SentRecord
free_spare_memory = _chosen.free_spare_memory
longest_bytes = _chosen.longest_bytes
murmur2 = _chosen.murmur2
partition_of_key = _chosen.partition_of_key
partitions_of_keys = _chosen.partitions_of_keys
whole_batches = _chosen.whole_batches
