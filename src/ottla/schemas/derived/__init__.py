"""Schemas of Python classes: a dataclass or a pydantic model is its own Avro, JSON or Protobuf schema.

`shapes` reads a class into a description that the formats share; `avro`, `json_schema` and `protobuf` turn the
description into a schema and values into what the format's library takes, and back.
"""
