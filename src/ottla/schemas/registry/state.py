"""What the registry knows: the outcome of all records of the topic, one after the other.

`apply` is the only change of state, on a start as later. Everything else answers questions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from ottla.schemas.registry.model import (
    CompatibilityLevel,
    Mode,
    Reference,
    SchemaContent,
    StoredVersion,
    SubjectConfig,
    SubjectVersion,
)
from ottla.schemas.registry.stored_records import (
    ConfigSet,
    HighestId,
    ModeSet,
    SchemaRemoved,
    SchemaStored,
    StoredRecord,
    SubjectCleared,
    SubjectDeleted,
)

T = TypeVar("T")

DEFAULT_CONFIG: Final = SubjectConfig(CompatibilityLevel.BACKWARD)


class RegistryState:
    """Subjects, versions, ids, configurations and modes."""

    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, StoredVersion]] = {}
        self.highest_id = 0
        self.configs: dict[str | None, SubjectConfig] = {}
        self.modes: dict[str | None, Mode] = {}
        # How often anything changed: a decision that was made on an older state is made again.
        self.revision = 0
        self._places_by_id: dict[int, dict[SubjectVersion, None]] = {}
        self._ids_by_content: dict[bytes, int] = {}
        self._referrers: dict[SubjectVersion, dict[SubjectVersion, None]] = {}

    # Changes

    def apply(self, record: StoredRecord) -> None:
        """Take a record of the topic."""
        self.revision += 1
        match record:
            case SchemaStored(version):
                self._remove(version.place)
                self._add(version)
            case SchemaRemoved(place):
                self._remove(place)
            case SubjectDeleted(subject, last):
                for version in list(self.subjects.get(subject, {}).values()):
                    if version.version <= last and not version.is_deleted:
                        self._remove(version.place)
                        self._add(version.deleted())
            case SubjectCleared(name):
                for subject in [*self.subjects] if name is None else [name]:
                    for version in list(self.subjects.get(subject, {}).values()):
                        self._remove(version.place)
            case ConfigSet(name, config):
                _set(self.configs, name, config)
            case ModeSet(name, mode):
                _set(self.modes, name, mode)
            case HighestId(schema_id):
                self.highest_id = max(self.highest_id, schema_id)

    def _add(self, version: StoredVersion) -> None:
        self.subjects.setdefault(version.subject, {})[version.version] = version
        self.highest_id = max(self.highest_id, version.schema_id)
        self._places_by_id.setdefault(version.schema_id, {})[version.place] = None
        self._ids_by_content.setdefault(version.content.fingerprint, version.schema_id)
        for reference in version.content.references:
            target = SubjectVersion(reference.subject, reference.version)
            self._referrers.setdefault(target, {})[version.place] = None

    def _remove(self, place: SubjectVersion) -> None:
        versions = self.subjects.get(place.subject, {})
        version = versions.pop(place.version, None)
        if version is None:
            return
        if not versions:
            del self.subjects[place.subject]
        places = self._places_by_id[version.schema_id]
        del places[place]
        if not places:
            del self._places_by_id[version.schema_id]
            fingerprint = version.content.fingerprint
            if self._ids_by_content.get(fingerprint) == version.schema_id:
                del self._ids_by_content[fingerprint]
        for reference in version.content.references:
            target = SubjectVersion(reference.subject, reference.version)
            referrers = self._referrers.get(target)
            if referrers is not None:
                referrers.pop(place, None)
                if not referrers:
                    del self._referrers[target]

    # Questions

    def version(self, place: SubjectVersion) -> StoredVersion | None:
        """A version, soft deleted or not."""
        return self.subjects.get(place.subject, {}).get(place.version)

    def all_versions(self, subject: str) -> list[StoredVersion]:
        """All versions of a subject, also soft deleted ones, by number."""
        return [version for _, version in sorted(self.subjects.get(subject, {}).items())]

    def live_versions(self, subject: str) -> list[StoredVersion]:
        """The versions that are not deleted, by number."""
        return [version for version in self.all_versions(subject) if not version.is_deleted]

    def subject_names(self) -> list[str]:
        """All subjects, in the order of their names."""
        return sorted(self.subjects)

    def has_subject(self, subject: str, with_deleted: bool) -> bool:
        """Whether a subject has versions."""
        versions = self.subjects.get(subject, {}).values()
        return any(with_deleted or not version.is_deleted for version in versions)

    def with_id(self, schema_id: int) -> list[StoredVersion]:
        """The versions that have an id, also soft deleted ones, by subject and number."""
        places = sorted(self._places_by_id.get(schema_id, {}))
        return [self.subjects[place.subject][place.version] for place in places]

    def id_of(self, content: SchemaContent) -> int | None:
        """The id of a schema, under whatever subject."""
        return self._ids_by_content.get(content.fingerprint)

    def referrers(self, place: SubjectVersion, with_deleted: bool) -> list[StoredVersion]:
        """The versions that refer to a version."""
        found = [self.version(each) for each in sorted(self._referrers.get(place, {}))]
        return [
            each for each in found if each is not None and (with_deleted or not each.is_deleted)
        ]

    def referred(self, reference: Reference) -> StoredVersion | None:
        """The version that a reference means."""
        return self.version(SubjectVersion(reference.subject, reference.version))

    def config_in_scope(self, subject: str | None) -> SubjectConfig:
        """The configuration of a subject, completed by the global one and by the default."""
        own = self.configs.get(subject, SubjectConfig()) if subject else SubjectConfig()
        return own.over(self.configs.get(None, SubjectConfig())).over(DEFAULT_CONFIG)

    def mode_in_scope(self, subject: str | None) -> Mode:
        """The mode that counts for a subject; a global READONLY_OVERRIDE is stronger than its own."""
        overall = self.modes.get(None, Mode.READWRITE)
        if overall is Mode.READONLY_OVERRIDE or not subject:
            return overall
        return self.modes.get(subject, overall)

    def __iter__(self) -> Iterator[StoredVersion]:
        for subject in self.subject_names():
            yield from self.all_versions(subject)


def _set(table: dict[str | None, T], name: str | None, value: T | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
