"""Schemas: Confluent's wire format for Avro, JSON Schema and Protobuf, and a client of schema registries.

In here: the registry's client, serializers and deserializers, schemas derived from dataclasses and pydantic models,
and codecs (`Codec`, `codec_for`) for layers above. The registry's server is in `registry`, the rules of compatibility
are in `compatibility`. Not in here: when a record is sent or committed.
"""

from ottla.schemas.client.aio import AsyncSchemaRegistryClient
from ottla.schemas.client.blocking import SchemaRegistryClient
from ottla.schemas.codec import NOT_CACHED, Codec, NotCached
from ottla.schemas.codecs import codec_for
from ottla.schemas.derived.shapes import Digits
from ottla.schemas.errors import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAccessError,
    RegistryRequestError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SchemaRegistryError,
)
from ottla.schemas.model import RegisteredSchema, Schema, SchemaReference, SchemaType
from ottla.schemas.schema_text import avro_schema, json_schema, protobuf_schema
from ottla.schemas.serializers.avro import AvroDeserializer, AvroSerializer
from ottla.schemas.serializers.json_schema import JSONSchemaDeserializer, JSONSchemaSerializer
from ottla.schemas.serializers.protobuf import ProtobufDeserializer, ProtobufSerializer

__all__ = [
    "NOT_CACHED",
    "AsyncSchemaRegistryClient",
    "AvroDeserializer",
    "AvroSerializer",
    "Codec",
    "Digits",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "JSONSchemaDeserializer",
    "JSONSchemaSerializer",
    "NotCached",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "RegistryAccessError",
    "RegistryRequestError",
    "RegistryUnavailableError",
    "Schema",
    "SchemaNotFoundError",
    "SchemaReference",
    "SchemaRegistryClient",
    "SchemaRegistryError",
    "SchemaType",
    "avro_schema",
    "codec_for",
    "json_schema",
    "protobuf_schema",
]
