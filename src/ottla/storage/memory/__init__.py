"""The memory engine: nothing outlives the process, and its size is bounded."""

from ottla.storage.memory.log import MemoryLog
from ottla.storage.memory.segments import MemoryPartition
from ottla.storage.memory.store import DEFAULT_MAX_BYTES, MemoryCatalog, MemoryStore

__all__ = ["DEFAULT_MAX_BYTES", "MemoryCatalog", "MemoryLog", "MemoryPartition", "MemoryStore"]
