"""Protobuf schemas: texts and descriptors, checked by protobuf's own DescriptorPool."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from ottla.schemas.compatibility.parsed_schema import (
    Budget,
    Incompatibility,
    ParsedSchema,
    ReferencedSchema,
    SchemaError,
)
from ottla.schemas.compatibility.proto_difference import ProtoComparison
from ottla.schemas.compatibility.proto_parser import parse_proto
from ottla.schemas.compatibility.proto_printer import print_proto

# What every user of Protobuf has: imports of these need no reference.
WELL_KNOWN: Final = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in (
        "any",
        "api",
        "descriptor",
        "duration",
        "empty",
        "field_mask",
        "source_context",
        "struct",
        "timestamp",
        "type",
        "wrappers",
    )
}
_OWN_NAME: Final = "default"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=\s]+")


class ProtobufSchema:
    """A parsed file, and the files that it imports."""

    def __init__(
        self, file: pb.FileDescriptorProto, imported: Mapping[str, pb.FileDescriptorProto]
    ) -> None:
        self.file = file
        self.imported = imported

    @cached_property
    def canonical(self) -> str:
        """The text of the file, printed anew."""
        return print_proto(self.file)

    @cached_property
    def normalized(self) -> str:
        """The same without comments, and with imports, messages and fields in order."""
        return print_proto(_sorted(self.file))

    def formatted(self, name: str) -> str:
        """`serialized` is a FileDescriptorProto in base64."""
        if name == "serialized":
            plain = pb.FileDescriptorProto()
            plain.CopyFrom(self.file)
            plain.ClearField("source_code_info")
            _drop_uninterpreted(plain)
            return base64.b64encode(plain.SerializeToString(deterministic=True)).decode()
        if name in ("default", "ignore_extensions"):
            return self.canonical
        raise SchemaError(f"Invalid format {name} for PROTOBUF: use default or serialized")

    def problems_reading(self, writer: ParsedSchema, budget: Budget) -> list[Incompatibility]:
        """Why messages of the other schema cannot be read with this one."""
        assert isinstance(writer, ProtobufSchema)
        comparison = ProtoComparison(
            [writer.file, *writer.imported.values()], [self.file, *self.imported.values()], budget
        )
        return list(comparison.files(writer.file, self.file))


def parse_protobuf(text: str, references: Sequence[ReferencedSchema] = ()) -> ProtobufSchema:
    """Read a `.proto` text or a FileDescriptorProto in base64; imports name references or well-known files."""
    pool = DescriptorPool()
    imported: dict[str, pb.FileDescriptorProto] = {}
    for reference in references:
        file = _read(reference.text, reference.name)
        imported[reference.name] = _resolved(file, pool, imported)
    return ProtobufSchema(_resolved(_read(text, _OWN_NAME), pool, imported), imported)


def _read(text: str, name: str) -> pb.FileDescriptorProto:
    try:
        return parse_proto(text, name)
    except SchemaError as error:
        file = _decoded(text)
        if file is None:
            raise error
    file.name = name
    return file


def _decoded(text: str) -> pb.FileDescriptorProto | None:
    if not _BASE64.fullmatch(text):
        return None
    try:
        file = pb.FileDescriptorProto.FromString(base64.b64decode(text))
    except (binascii.Error, DecodeError):
        return None
    # A json_name that says nothing new is left out by some compilers.
    return file


def _resolved(
    file: pb.FileDescriptorProto,
    pool: DescriptorPool,
    imported: dict[str, pb.FileDescriptorProto],
) -> pb.FileDescriptorProto:
    """The file with the full names of types; raises if it is not valid."""
    for name in file.dependency:
        _add_well_known(name, pool, imported)
        if name not in imported:
            raise SchemaError(
                f'import "{name}" is not found: give a reference with the name "{name}"'
            )
    plain = pb.FileDescriptorProto()
    plain.CopyFrom(file)
    plain.ClearField("source_code_info")
    _drop_uninterpreted(plain)
    try:
        pool.Add(plain)
        found = pool.FindFileByName(file.name)
    except (TypeError, KeyError, ValueError) as error:
        message = str(error).replace("Couldn't build proto file into descriptor pool: ", "")
        raise SchemaError(message.strip("'\"")) from error
    resolved = pb.FileDescriptorProto()
    found.CopyToProto(resolved)
    _copy_types(file, resolved)
    return file


def _add_well_known(
    name: str, pool: DescriptorPool, imported: dict[str, pb.FileDescriptorProto]
) -> None:
    if name in imported or name not in WELL_KNOWN:
        return
    file = pb.FileDescriptorProto.FromString(
        import_module(WELL_KNOWN[name]).DESCRIPTOR.serialized_pb
    )
    for needed in file.dependency:
        _add_well_known(needed, pool, imported)
    pool.Add(file)
    imported[name] = file


def _copy_types(file: pb.FileDescriptorProto, resolved: pb.FileDescriptorProto) -> None:
    for own, found in zip(_fields(file), _fields(resolved), strict=True):
        own.type = found.type
        if found.type_name:
            own.type_name = found.type_name
        if found.extendee:
            own.extendee = found.extendee
    for service, found_service in zip(file.service, resolved.service, strict=True):
        for method, found_method in zip(service.method, found_service.method, strict=True):
            method.input_type = found_method.input_type
            method.output_type = found_method.output_type


def _fields(file: pb.FileDescriptorProto) -> Iterator[pb.FieldDescriptorProto]:
    yield from file.extension
    for message in _messages(file.message_type):
        yield from message.field
        yield from message.extension


def _messages(messages: Any) -> Iterator[pb.DescriptorProto]:
    for message in messages:
        yield message
        yield from _messages(message.nested_type)


def _drop_uninterpreted(file: pb.FileDescriptorProto) -> None:
    """Take out the options that only those understand who know their extensions."""
    holders: list[Any] = [file, *file.service, *file.enum_type]
    holders += [method for service in file.service for method in service.method]
    holders += _fields(file)
    for message in _messages(file.message_type):
        holders += [message, *message.enum_type, *message.oneof_decl, *message.extension_range]
    holders += [value for each in holders for value in getattr(each, "value", ())]
    for holder in holders:
        if holder.HasField("options"):
            holder.options.ClearField("uninterpreted_option")


def _sorted(file: pb.FileDescriptorProto) -> pb.FileDescriptorProto:
    made = pb.FileDescriptorProto()
    made.CopyFrom(file)
    made.ClearField("source_code_info")
    if not made.public_dependency and not made.weak_dependency:
        _sort(made.dependency, key=str)
    for message in _messages(made.message_type):
        _sort(message.field, key=lambda field: field.number)
    for enum in (
        *made.enum_type,
        *(enum for message in _messages(made.message_type) for enum in message.enum_type),
    ):
        # The first value is the default.
        first, rest = enum.value[:1], sorted(enum.value[1:], key=lambda value: value.number)
        kept = [
            pb.EnumValueDescriptorProto.FromString(v.SerializeToString()) for v in (*first, *rest)
        ]
        del enum.value[:]
        enum.value.extend(kept)
    return made


def _sort(items: Any, key: Any) -> None:
    items.sort(key=key)
