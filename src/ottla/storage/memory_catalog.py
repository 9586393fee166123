"""The catalog of the memory engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from ottla.ports import CatalogConflictError, JsonValue


class MemoryCatalog:
    """Implements Catalog."""

    def __init__(self) -> None:
        self._entries: dict[str, JsonValue] = {}
        self._revision = 0

    @property
    def revision(self) -> int:
        return self._revision

    def entries(self) -> Mapping[str, JsonValue]:
        return MappingProxyType(self._entries)

    def commit(self, changes: Mapping[str, JsonValue], expected_revision: int) -> int:
        if expected_revision != self._revision:
            raise CatalogConflictError(
                f"the catalog is at revision {self._revision}, not {expected_revision}"
            )
        # Through JSON, so that nobody can change what is kept, and what fits here fits elsewhere.
        for key, value in json.loads(json.dumps(dict(changes))).items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value
        self._revision += 1
        return self._revision
