"""Schemas as registries know them: the schema, its references, its place in a subject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class SchemaType(StrEnum):
    """The formats of schemas, by Confluent's names."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one uses: `name` is how the other one calls it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """The text of a schema, its format and the schemas that it refers to."""

    text: str
    type: str = SchemaType.AVRO
    references: tuple[SchemaReference, ...] = ()

    def body(self) -> dict[str, Any]:
        """The fields of a request that carries the schema; Avro is the format that is not named."""
        body: dict[str, Any] = {"schema": self.text}
        if self.type != SchemaType.AVRO:
            body["schemaType"] = str(self.type)
        if self.references:
            body["references"] = [
                {"name": each.name, "subject": each.subject, "version": each.version}
                for each in self.references
            ]
        return body

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Schema:
        """The schema of a registry's answer."""
        references = answer.get("references") or ()
        return cls(
            text=str(answer["schema"]),
            type=str(answer.get("schemaType") or SchemaType.AVRO),
            references=tuple(
                SchemaReference(str(each["name"]), str(each["subject"]), int(each["version"]))
                for each in references
            ),
        )


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its id; `version` and `guid` are None where a registry does not tell them."""

    id: int
    schema: Schema
    subject: str
    version: int | None = None
    guid: str | None = None


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """A version of a subject."""

    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class CompatibilityResult:
    """Whether a schema may become the next version, and what stands against it."""

    is_compatible: bool
    messages: tuple[str, ...] = ()
