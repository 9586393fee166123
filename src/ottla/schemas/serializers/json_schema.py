"""JSON Schema: serializers for JSON values, dataclasses and pydantic models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from ottla.errors import ConfigError, DeserializationError, SerializationError
from ottla.schemas.client.operations import ReferencedSchema
from ottla.schemas.codec import Data
from ottla.schemas.derived.json_schema import json_type
from ottla.schemas.extra import require
from ottla.schemas.model import Schema, SchemaType
from ottla.schemas.serializers.lookups import Registry
from ottla.schemas.serializers.schema_deserializer import Read, SchemaDeserializer
from ottla.schemas.serializers.schema_serializer import OwnSchema
from ottla.schemas.serializers.text_schema_serializer import (
    TextSchemaSerializer,
    references_are_missing,
)

T = TypeVar("T")


class JSONSchemaSerializer(TextSchemaSerializer[T]):
    """Values as JSON with a JSON Schema: `JSONSchemaSerializer(Order, registry=…)`.

    With the text of a schema instead of a class, values are what JSON has, and are checked against the schema unless
    json.fail.invalid.schema is false; with neither, the class of each value is its schema. Objects of classes are
    checked by their types, pydantic models by pydantic.
    """

    schema_type = SchemaType.JSON

    @overload
    def __init__(
        self: JSONSchemaSerializer[T],
        schema: type[T],
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        to_dict: None = ...,
        **options: object,
    ) -> None: ...
    @overload
    def __init__(
        self: JSONSchemaSerializer[Any],
        schema: str | Schema | None = ...,
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        to_dict: Callable[[Any], Any] | None = ...,
        **options: object,
    ) -> None: ...
    def __init__(
        self,
        schema: type | str | Schema | None = None,
        /,
        *,
        registry: Registry | None = None,
        config: Mapping[str, object] | None = None,
        to_dict: Callable[[Any], Any] | None = None,
        **options: object,
    ) -> None:
        super().__init__(schema, to_dict, registry, config, options)

    def _own_of_type(self, type_: Any) -> OwnSchema:
        derived = json_type(type_)
        schema = Schema(derived.text, SchemaType.JSON)
        if derived.to_json is not None:
            return OwnSchema(derived.name, schema, derived.to_json)
        # The types of the class are checked as it is converted.
        return OwnSchema(derived.name, schema, _encoder(derived.to_plain, None))

    def _own_of_text(self, schema: Schema) -> OwnSchema:
        definition = _loaded(schema.text)
        title = definition.get("title") if isinstance(definition, dict) else None
        encode: Callable[[Any], bytes] = references_are_missing
        if not schema.references:
            encode = self._encoder_of(schema, (), self._to_dict)
        return OwnSchema(title, schema, encode)

    def _encoder(
        self, schema: Schema, references: tuple[ReferencedSchema, ...], own: OwnSchema
    ) -> Callable[[Any], bytes]:
        return self._encoder_of(schema, references, self._plain_of)

    def _encoder_of(
        self,
        schema: Schema,
        references: tuple[ReferencedSchema, ...],
        to_plain: Callable[[Any], Any] | None,
    ) -> Callable[[Any], bytes]:
        checks = self._config.json_fail_invalid_schema
        return _encoder(to_plain, checker(_loaded(schema.text), references) if checks else None)

    def _to_plain_of(self, type_: Any) -> Callable[[Any], Any] | None:
        return json_type(type_).to_plain


class JSONSchemaDeserializer(SchemaDeserializer[T]):
    """Values from JSON with a JSON Schema: `JSONSchemaDeserializer(Order, registry=…)`.

    Values are checked: against the class if there is one (fields that it lacks are left out), else against the schema
    that they were written with.
    """

    schema_type = SchemaType.JSON

    @overload
    def __init__(
        self: JSONSchemaDeserializer[T],
        schema: type[T],
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        from_dict: None = ...,
        **options: object,
    ) -> None: ...
    @overload
    def __init__(
        self: JSONSchemaDeserializer[T],
        schema: str | Schema | None = ...,
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        from_dict: Callable[[Any], T],
        **options: object,
    ) -> None: ...
    @overload
    def __init__(
        self: JSONSchemaDeserializer[Any],
        schema: str | Schema | None = ...,
        /,
        *,
        registry: Registry | None = ...,
        config: Mapping[str, object] | None = ...,
        from_dict: None = ...,
        **options: object,
    ) -> None: ...
    def __init__(
        self,
        schema: type | str | Schema | None = None,
        /,
        *,
        registry: Registry | None = None,
        config: Mapping[str, object] | None = None,
        from_dict: Callable[[Any], Any] | None = None,
        **options: object,
    ) -> None:
        super().__init__(registry, config, options)
        if self._config.use_latest_version:
            raise ConfigError(
                "use.latest.version is Avro's: JSON is read as it was written, or into a class"
            )
        self._from_plain = from_dict
        self._own: Any = None
        self._is_class = False
        self._from_json: Callable[[bytes], Any] | None = None
        if isinstance(schema, type) and schema is not dict:
            derived = json_type(schema)
            self._from_json = derived.from_json
            self._is_class = True
            self._from_plain = derived.from_plain
        elif isinstance(schema, str | Schema):
            self._own = _loaded(schema if isinstance(schema, str) else schema.text)

    def _reader(
        self,
        schema: Schema,
        references: tuple[ReferencedSchema, ...],
        latest: tuple[Schema, tuple[ReferencedSchema, ...]] | None,
    ) -> Read:
        checks = self._config.json_fail_invalid_schema
        from_plain, from_json = self._from_plain, self._from_json
        if from_json is not None:
            to_class = from_json
            return lambda data, at: to_class(bytes(data[at:]))
        check = None
        if checks and self._own is not None:
            check = checker(self._own, ())
        elif checks and not self._is_class:
            check = checker(_loaded(schema.text), references)

        def read(data: Data, at: int) -> Any:
            try:
                plain = json.loads(bytes(data[at:]))
            except (ValueError, RecursionError) as error:
                raise DeserializationError(f"not JSON: {error}", raw=bytes(data)) from error
            if check is not None and (problem := check(plain)) is not None:
                raise DeserializationError(
                    f"the record does not fit its schema: {problem}", raw=bytes(data)
                )
            return plain if from_plain is None else from_plain(plain)

        return read


def _encoder(
    to_plain: Callable[[Any], Any] | None, check: Callable[[Any], str | None] | None
) -> Callable[[Any], bytes]:
    def encode(value: Any) -> bytes:
        plain = value if to_plain is None else to_plain(value)
        if check is not None and (problem := check(plain)) is not None:
            raise SerializationError(f"{type(value).__name__} does not fit its schema: {problem}")
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()

    return encode


def checker(
    definition: Any, references: tuple[ReferencedSchema, ...]
) -> Callable[[Any], str | None]:
    """A function that says what is wrong with a value, if anything is."""
    jsonschema = require("jsonschema", "JSON Schema")
    referencing = require("referencing", "JSON Schema")
    from_text = require("referencing.jsonschema", "JSON Schema")
    default = from_text.DRAFT7
    resources = [
        (each.name, referencing.Resource.from_contents(_loaded(each.schema.text), default))
        for each in references
    ]
    try:
        kind = jsonschema.validators.validator_for(definition, jsonschema.Draft7Validator)
        kind.check_schema(definition)
        registry = referencing.Registry().with_resources(resources)
        validator = kind(definition, registry=registry)
    except jsonschema.SchemaError as error:
        raise ConfigError(f"the JSON Schema cannot be used: {error.message}") from error

    def check(value: Any) -> str | None:
        if validator.is_valid(value):
            return None
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        return f"{error.json_path}: {error.message}"

    return check


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the JSON Schema is no JSON: {error}") from error
