"""What the registry keeps: versions of schemas, configurations and modes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

DEFAULT_TYPE: Final = "AVRO"


class Reference(NamedTuple):
    """A schema that another one imports, by the name that it uses for it."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        """As requests and answers have it."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


class SubjectVersion(NamedTuple):
    """The place of a schema: a version of a subject."""

    subject: str
    version: int


class CompatibilityLevel(StrEnum):
    """Which earlier versions a new one is compared with, and in which direction."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether all earlier versions count, not just the latest."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        """Whether the new schema has to read data of the old one."""
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        """Whether the old schema has to read data of the new one."""
        return self.value.startswith(("FORWARD", "FULL"))


class Mode(StrEnum):
    """What may be written to a subject."""

    READWRITE = "READWRITE"
    READONLY = "READONLY"
    READONLY_OVERRIDE = "READONLY_OVERRIDE"
    IMPORT = "IMPORT"

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be written."""
        return self in (Mode.READONLY, Mode.READONLY_OVERRIDE)


@dataclass(frozen=True, slots=True)
class SubjectConfig:
    """The configuration of a subject, or of all; None where it says nothing."""

    compatibility_level: CompatibilityLevel | None = None
    normalize: bool | None = None
    compatibility_group: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As records and PUT have it; GET calls the level compatibilityLevel too."""
        fields = {
            "compatibilityLevel": None
            if self.compatibility_level is None
            else self.compatibility_level.value,
            "normalize": self.normalize,
            "compatibilityGroup": self.compatibility_group,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def over(self, other: SubjectConfig) -> SubjectConfig:
        """This one, with what it does not say from the other one."""
        return SubjectConfig(
            self.compatibility_level or other.compatibility_level,
            other.normalize if self.normalize is None else self.normalize,
            self.compatibility_group or other.compatibility_group,
        )


@dataclass(frozen=True, slots=True)
class SchemaContent:
    """A schema as clients register it, in its canonical text: the same content has the same id."""

    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None

    @property
    def fingerprint(self) -> bytes:
        """Equal for equal contents only."""
        parts = [
            self.schema_type,
            self.text,
            [list(reference) for reference in self.references],
            self.metadata,
            self.rule_set,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()

    def to_json(self) -> dict[str, Any]:
        """As answers have it: the type only if it is not Avro, the rest only if there is any."""
        fields: dict[str, Any] = {}
        if self.schema_type != DEFAULT_TYPE:
            fields["schemaType"] = self.schema_type
        if self.references:
            fields["references"] = [reference.to_json() for reference in self.references]
        if self.metadata is not None:
            fields["metadata"] = self.metadata
        if self.rule_set is not None:
            fields["ruleSet"] = self.rule_set
        fields["schema"] = self.text
        return fields


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of a subject."""

    subject: str
    version: int
    schema_id: int
    content: SchemaContent
    is_deleted: bool = False

    @property
    def place(self) -> SubjectVersion:
        """Where it is."""
        return SubjectVersion(self.subject, self.version)

    def deleted(self) -> StoredVersion:
        """The same one, soft deleted."""
        return replace(self, is_deleted=True)
