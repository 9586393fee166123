"""What a request changes: the records to write and the answer, or a refusal.

Pure: a decision reads the state and returns records; the state changes when they come back from the topic. All records
of a decision are written in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ottla.schemas.registry import errors
from ottla.schemas.registry.model import (
    CompatibilityLevel,
    Mode,
    Reference,
    SchemaContent,
    StoredVersion,
    SubjectConfig,
    SubjectVersion,
)
from ottla.schemas.registry.state import RegistryState
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

MAX_ID: Final = 2**31 - 1
LATEST: Final = -1


@dataclass(frozen=True, slots=True)
class Decision:
    """The records to write, and what the client is told when they are written."""

    records: tuple[StoredRecord, ...]
    answer: Any


@dataclass(frozen=True, slots=True)
class Registration:
    """A schema to register, in its canonical text; id and version are given in IMPORT mode."""

    subject: str
    content: SchemaContent
    schema_id: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class AlreadyRegistered:
    """The subject has the schema: nothing to write, nothing to compare."""

    version: StoredVersion


@dataclass(frozen=True, slots=True)
class CompareWith:
    """The versions that a new schema has to be compatible with, the latest first."""

    level: CompatibilityLevel
    previous: tuple[StoredVersion, ...]


Preparation: TypeAlias = AlreadyRegistered | CompareWith


# Registering


def check_register_mode(state: RegistryState, registration: Registration) -> None:
    """Raise if the mode of the subject does not allow it."""
    subject = registration.subject
    mode = state.mode_in_scope(subject)
    if mode.is_read_only:
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")
    if registration.schema_id is not None and mode is not Mode.IMPORT:
        raise errors.not_permitted(f"Subject {subject} is not in import mode")
    if registration.schema_id is None and mode is not Mode.READWRITE:
        raise errors.not_permitted(f"Subject {subject} is not in read-write mode")


def find_registered(
    state: RegistryState, subject: str, content: SchemaContent, with_deleted: bool
) -> StoredVersion | None:
    """The latest version of the subject that has this content."""
    schema_id = state.id_of(content)
    if schema_id is None:
        return None
    for version in reversed(state.all_versions(subject)):
        if version.schema_id == schema_id and (with_deleted or not version.is_deleted):
            return version
    return None


def prepare_registration(state: RegistryState, registration: Registration) -> Preparation:
    """Whether the subject has the schema, or what to compare it with first."""
    found = find_registered(state, registration.subject, registration.content, False)
    if found is not None and _is_the_same(registration, found):
        return AlreadyRegistered(found)
    check_register_mode(state, registration)
    if state.mode_in_scope(registration.subject) is Mode.IMPORT:
        return CompareWith(CompatibilityLevel.NONE, ())
    live = state.live_versions(registration.subject)
    return to_compare(state, registration.subject, registration.content, live)


def _is_the_same(registration: Registration, found: StoredVersion) -> bool:
    return registration.schema_id in (None, found.schema_id) and registration.version in (
        None,
        found.version,
    )


def to_compare(
    state: RegistryState,
    subject: str,
    content: SchemaContent,
    versions: Sequence[StoredVersion],
) -> CompareWith:
    """Those of the versions that the subject's level compares a new schema with, the latest first."""
    config = state.config_in_scope(subject)
    level = config.compatibility_level or CompatibilityLevel.BACKWARD
    if level is CompatibilityLevel.NONE:
        return CompareWith(level, ())
    if config.compatibility_group is not None:
        group = _group_of(content, config.compatibility_group)
        versions = [
            each
            for each in versions
            if _group_of(each.content, config.compatibility_group) == group
        ]
    newest_first = tuple(reversed(versions))
    return CompareWith(level, newest_first if level.is_transitive else newest_first[:1])


def _group_of(content: SchemaContent, name: str) -> object:
    properties = (content.metadata or {}).get("properties")
    return properties.get(name) if isinstance(properties, dict) else None


def decide_registration(state: RegistryState, registration: Registration) -> Decision:
    """Give the schema its id and version; the caller has compared it with what `prepare_registration` named."""
    found = find_registered(state, registration.subject, registration.content, False)
    if found is not None and _is_the_same(registration, found):
        return Decision((), found)
    check_register_mode(state, registration)
    _check_references(state, registration.content.references)
    versions = state.all_versions(registration.subject)
    next_version = versions[-1].version + 1 if versions else 1
    number = _version_of(state, registration, next_version)
    schema_id = _id_of(state, registration)
    stored = StoredVersion(registration.subject, number, schema_id, registration.content)
    replaced = [
        each
        for each in versions
        if each.is_deleted
        and each.schema_id == schema_id
        and each.version < number
        and not state.referrers(each.place, True)
    ]
    records: list[StoredRecord] = [SchemaRemoved(each.place) for each in replaced]
    return Decision((*records, SchemaStored(stored)), stored)


def _check_references(state: RegistryState, references: Iterable[Reference]) -> None:
    for reference in references:
        if state.referred(reference) is None:
            raise errors.RefusedSchemaError(
                f'No schema reference found for subject "{reference.subject}" and version {reference.version}'
            )


def _version_of(state: RegistryState, registration: Registration, next_version: int) -> int:
    wanted = registration.version
    if wanted is None or wanted == next_version:
        return next_version
    if state.mode_in_scope(registration.subject) is not Mode.IMPORT:
        raise errors.RefusedSchemaError("Version is not one more than previous version")
    existing = state.version(SubjectVersion(registration.subject, wanted))
    if existing is not None and existing.content != registration.content:
        raise errors.not_permitted(
            f"Overwrite version {wanted} of subject {registration.subject} is not permitted."
        )
    return wanted


def _id_of(state: RegistryState, registration: Registration) -> int:
    wanted = registration.schema_id
    if wanted is None:
        known = state.id_of(registration.content)
        if known is not None:
            return known
        if state.highest_id >= MAX_ID:
            raise errors.store_failed("No ids are left: ids go up to 2^31-1")
        return state.highest_id + 1
    owners = state.with_id(wanted)
    if owners and owners[0].content.fingerprint != registration.content.fingerprint:
        raise errors.not_permitted(f"Overwrite new schema with id {wanted} is not permitted.")
    return wanted


# Finding versions


def find_version(
    state: RegistryState, subject: str, number: int, with_deleted: bool
) -> StoredVersion:
    """A version by its number, or the latest."""
    found: StoredVersion | None
    if number == LATEST:
        live = state.live_versions(subject)
        found = live[-1] if live else None
    else:
        found = state.version(SubjectVersion(subject, number))
    if found is not None and (with_deleted or not found.is_deleted):
        return found
    if not state.has_subject(subject, with_deleted):
        raise errors.subject_not_found(subject)
    raise errors.version_not_found(number)


# Deleting


def decide_version_deletion(
    state: RegistryState, subject: str, number: int, permanent: bool
) -> Decision:
    """Delete a version: softly at first, then for good."""
    if number != LATEST and not permanent:
        existing = state.version(SubjectVersion(subject, number))
        if existing is not None and existing.is_deleted:
            raise errors.version_soft_deleted(subject, number)
    version = find_version(state, subject, number, True)
    _check_writable(state, subject)
    if state.referrers(version.place, permanent):
        raise errors.reference_exists(_key_text(version.place))
    if not permanent:
        return Decision((SchemaStored(version.deleted()),), version.version)
    if not version.is_deleted:
        raise errors.version_not_soft_deleted(subject, version.version)
    records: list[StoredRecord] = [HighestId(state.highest_id), SchemaRemoved(version.place)]
    if len(state.all_versions(subject)) == 1:
        records += _removal_of_settings(state, subject)
    return Decision(tuple(records), version.version)


def decide_subject_deletion(state: RegistryState, subject: str, permanent: bool) -> Decision:
    """Delete all versions of a subject: softly at first, then for good."""
    if not state.has_subject(subject, True):
        raise errors.subject_not_found(subject)
    if not permanent and not state.has_subject(subject, False):
        raise errors.subject_soft_deleted(subject)
    _check_writable(state, subject)
    versions = state.all_versions(subject) if permanent else state.live_versions(subject)
    for version in versions:
        referrers = state.referrers(version.place, permanent)
        if any(referrer.subject != subject for referrer in referrers):
            raise errors.reference_exists(_key_text(version.place))
        if permanent and not version.is_deleted:
            raise errors.subject_not_soft_deleted(subject)
    numbers = [version.version for version in versions]
    if not permanent:
        return Decision((SubjectDeleted(subject, numbers[-1]),), numbers)
    records: list[StoredRecord] = [HighestId(state.highest_id)]
    # Later versions may refer to earlier ones.
    records += [SchemaRemoved(version.place) for version in reversed(versions)]
    records += _removal_of_settings(state, subject)
    return Decision(tuple(records), numbers)


def _removal_of_settings(state: RegistryState, subject: str) -> list[StoredRecord]:
    records: list[StoredRecord] = []
    if subject in state.modes:
        records.append(ModeSet(subject, None))
    if subject in state.configs:
        records.append(ConfigSet(subject, None))
    return records


def _key_text(place: SubjectVersion) -> str:
    return f"{{magic=1,keytype=SCHEMA,subject={place.subject},version={place.version}}}"


def _check_writable(state: RegistryState, subject: str | None) -> None:
    if state.mode_in_scope(subject).is_read_only:
        what = "The registry" if subject is None else f"Subject {subject}"
        raise errors.not_permitted(f"{what} is in read-only mode")


# Configuration and modes


def decide_config(state: RegistryState, subject: str | None, config: SubjectConfig) -> Decision:
    """Change what the configuration says; the rest of it stays."""
    _check_writable(state, subject)
    merged = config.over(state.configs.get(subject, SubjectConfig()))
    return Decision((ConfigSet(subject, merged),), merged)


def decide_config_deletion(state: RegistryState, subject: str | None) -> Decision:
    """Drop a configuration, and tell what it was."""
    if subject is not None and subject not in state.configs:
        raise errors.subject_not_found(subject)
    _check_writable(state, subject)
    previous = state.configs.get(subject) or state.config_in_scope(None)
    return Decision((ConfigSet(subject, None),), previous)


def decide_mode(state: RegistryState, subject: str | None, mode: Mode, force: bool) -> Decision:
    """Change a mode; to IMPORT only while there are no schemas, unless it is forced."""
    records: list[StoredRecord] = []
    if mode is Mode.IMPORT and state.mode_in_scope(subject) is not Mode.IMPORT and not force:
        names = state.subject_names() if subject is None else [subject]
        if any(state.has_subject(name, False) for name in names):
            raise errors.not_permitted("Cannot import since found existing subjects")
        doomed = [version for name in names for version in state.all_versions(name)]
        for version in doomed:
            if any(each.subject not in names for each in state.referrers(version.place, True)):
                raise errors.reference_exists(_key_text(version.place))
        if doomed:
            records.append(HighestId(state.highest_id))
        records += [SchemaRemoved(version.place) for version in doomed]
        records.append(SubjectCleared(subject))
    return Decision((*records, ModeSet(subject, mode)), mode)


def decide_mode_deletion(state: RegistryState, subject: str | None) -> Decision:
    """Drop the mode of a subject, or of all, and tell what it was."""
    previous = state.modes.get(subject)
    if previous is None:
        if subject is not None:
            raise errors.subject_not_found(subject)
        previous = Mode.READWRITE
    return Decision((ModeSet(subject, None),), previous)
