"""Schemas: Confluent's wire format for Avro, JSON Schema and Protobuf, and a client of schema registries.

In here: the registry's client, serializers and deserializers, schemas derived from dataclasses and pydantic models,
and codecs (`Codec`) for layers above. The registry's server is in `registry`, the rules of compatibility are in
`compatibility`. Not in here: when a record is sent or committed.
"""

from ottla.schemas.codec import NOT_CACHED, Codec, NotCached

__all__ = ["NOT_CACHED", "Codec", "NotCached"]
