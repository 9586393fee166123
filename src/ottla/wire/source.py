"""Generates the source of codec functions: lines, names, constants, and runs of fixed-size fields."""

from __future__ import annotations

import struct as struct_module
from typing import Any

from ottla.wire import primitives, types
from ottla.wire.columns import Columns, ColumnsCodec
from ottla.wire.declare import Field, fields_of
from ottla.wire.types import Fixed, MalformedMessageError, StringType

INDENT = "    "
# A sliced codec yields after this many elements of lists, which take some 0.2 ms.
SLICE_ELEMENTS = 256


class SourceWriter:
    """Collects the lines of a function, and the constants that it refers to."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.depth = 0
        self.names = 0
        self.constants: dict[str, Any] = {
            "MalformedMessageError": MalformedMessageError,
            "check_length": primitives.check_length,
            "check_tagged": primitives.check_tagged,
            "Columns": Columns,
            "length_prefix": primitives.length_prefix,
            "pieces_of": types.pieces_of,
            "read_uvarint": primitives.read_uvarint,
            "reject_count": primitives.reject_count,
            "reject_null": primitives.reject_null,
            "skip_tagged": primitives.skip_tagged,
            "uuid_bytes": primitives.uuid_bytes,
            "uuid_of": primitives.uuid_of,
            "write_uvarint": primitives.write_uvarint,
        }

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def constant(self, stem: str, value: Any) -> str:
        name = self.name(f"_{stem}")
        self.constants[name] = value
        return name

    def struct_of(self, letters: str) -> tuple[str, int]:
        """The name of the packer of a run of fixed-size fields, and the size of the run."""
        name = f"_s_{letters.replace('?', 'bool')}"
        compiled = struct_module.Struct(">" + letters)
        self.constants[name + "_pack"] = compiled.pack
        self.constants[name + "_unpack"] = compiled.unpack_from
        return name, compiled.size

    def build(self, function: str, filename: str) -> Any:
        code = compile("\n".join(self.lines), filename, "exec")
        exec(code, self.constants)
        return self.constants[function]

    def plain_fields(self, cls: type) -> list[Field]:
        return [f for f in fields_of(cls) if f.present_in(self.version) and not self.is_tagged(f)]

    def tagged_fields(self, cls: type) -> list[Field]:
        tagged = [
            f for f in fields_of(cls) if f.present_in(self.version) and f.tagged_in(self.version)
        ]
        return sorted(tagged, key=lambda f: f.presence.tag or 0) if self.flexible else []

    def nullable(self, field: Field) -> bool:
        return field.type.is_nullable and self.version >= field.presence.nullable_since

    def is_tagged(self, field: Field) -> bool:
        return self.flexible and field.tagged_in(self.version)

    def columns_codec(self, cls: type) -> ColumnsCodec:
        """How a list of these structs is written; their fields are numbers and texts."""
        kinds = b""
        places: list[int] = []
        missing: list[tuple[int, Any]] = []
        for place, field in enumerate(fields_of(cls)):
            assert field.presence.tag is None, f"{field.name} has a tag"
            if field.present_in(self.version):
                kinds += self._kind_of(field)
                places.append(place)
            else:
                assert field.default is not None
                missing.append((place, field.default()))
        return ColumnsCodec(cls, kinds, self.flexible, tuple(places), tuple(missing))

    def _kind_of(self, field: Field) -> bytes:
        element = field.type.element
        assert not field.type.is_list, f"{field.name} is a list"
        if isinstance(element, Fixed):
            return element.letter.encode()
        assert isinstance(element, StringType), f"{field.name} is neither a number nor a text"
        return b"S" if self.nullable(field) else b"s"


def is_fixed(field: Field) -> bool:
    return isinstance(field.type.element, Fixed) and not field.type.is_list


def runs_of(fields: list[Field]) -> list[list[Field]]:
    """The fields with neighbouring fixed-size ones grouped."""
    runs: list[list[Field]] = []
    for field in fields:
        if runs and is_fixed(field) and is_fixed(runs[-1][0]):
            runs[-1].append(field)
        else:
            runs.append([field])
    return runs


def letters_of(run: list[Field]) -> str:
    letters = ""
    for field in run:
        assert isinstance(field.type.element, Fixed)
        letters += field.type.element.letter
    return letters
