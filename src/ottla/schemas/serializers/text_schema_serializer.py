"""What the serializers of Avro and JSON Schema share: a class, a text, or the class of each value is the schema."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ottla.errors import ConfigError, SerializationError
from ottla.schemas.derived.shapes import is_record_type
from ottla.schemas.model import Schema
from ottla.schemas.serializers.lookups import Registry
from ottla.schemas.serializers.schema_serializer import OwnSchema, SchemaSerializer

T_contra = TypeVar("T_contra", contravariant=True)


class TextSchemaSerializer(SchemaSerializer[T_contra]):
    """Writes dataclasses, pydantic models, and plain values by the text of a schema."""

    def __init__(
        self,
        schema: type | str | Schema | None,
        to_dict: Callable[[Any], Any] | None,
        registry: Registry | None,
        config: Mapping[str, object] | None,
        options: Mapping[str, object],
    ) -> None:
        super().__init__(registry, config, options)
        self._to_dict = to_dict
        self._own: OwnSchema | None = None
        if isinstance(schema, type):
            self._own = self._own_of_type(schema)
        elif schema is not None:
            self._own = self._own_of_text(self._checked(schema))

    def _checked(self, schema: str | Schema) -> Schema:
        if isinstance(schema, str):
            return Schema(schema, self.schema_type)
        if schema.type != self.schema_type:
            raise ConfigError(
                f"a schema of type {schema.type}, where {type(self).__name__} writes {self.schema_type}"
            )
        return schema

    # What a format defines

    @abstractmethod
    def _own_of_type(self, type_: Any) -> OwnSchema:
        """The schema of a class."""

    @abstractmethod
    def _own_of_text(self, schema: Schema) -> OwnSchema:
        """The schema that the program has given."""

    @abstractmethod
    def _to_plain_of(self, type_: Any) -> Callable[[Any], Any] | None:
        """How objects of a class become plain values; None if they are plain."""

    # What they share

    def _writer_key(self, value: Any) -> object:
        return None if self._own is not None else type(value)

    def _own_schema(self, value: Any) -> OwnSchema:
        if self._own is not None:
            return self._own
        if not is_record_type(type(value)):
            raise SerializationError(
                f"{type(value).__name__} has no schema of its own: give {type(self).__name__} a schema, or send "
                "dataclasses or pydantic models"
            )
        return self._own_of_type(type(value))

    def _plain_of(self, value: Any) -> Any:
        """The plain value that is written with a schema of the registry."""
        if self._to_dict is not None:
            return self._to_dict(value)
        kind: Any = type(value)
        to_plain = self._to_plain_of(kind) if is_record_type(kind) else None
        return value if to_plain is None else to_plain(value)


def references_are_missing(value: Any) -> bytes:
    """The encoder of a schema whose references are not resolved yet: it is replaced before it is used."""
    raise AssertionError("the references are resolved first")
