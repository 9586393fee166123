"""Generates the decoding half of a codec."""

from __future__ import annotations

import struct as struct_module
import uuid
from typing import Any

from ottla.wire.declare import Field, fields_of
from ottla.wire.source import SLICE_ELEMENTS, SourceWriter, is_fixed, letters_of, runs_of
from ottla.wire.types import BytesType, Fixed, StringType, UuidType


class DecoderSource(SourceWriter):
    # Whether lists that are declared so become columns; not where a list is read in slices.
    reads_columns = True

    def function(self, cls: type) -> None:
        self.line(self.signature())
        self.depth += 1
        self.line("size = len(buf)")
        self.before_body()
        self.line("m = " + self.new(cls))
        self.body(cls, "m")
        self.line("return m, pos")

    def signature(self) -> str:
        return "def decode(buf, pos):"

    def before_body(self) -> None:
        """Lines before the first field."""

    def before_elements(self, count: str) -> None:
        """Lines after the length of a list is known."""

    def before_element(self) -> None:
        """Lines at the start of each round of a list's loop."""

    def new(self, cls: type) -> str:
        self.constants["_new"] = object.__new__
        name = f"_class_{cls.__name__}"
        self.constants[name] = cls
        return f"_new({name})"

    def body(self, cls: type, target: str) -> None:
        plain = self.plain_fields(cls)
        for field in fields_of(cls):
            if field not in plain:
                self.default(field, f"{target}.{field.name}")
        for run in runs_of(plain):
            if is_fixed(run[0]):
                name, size = self.struct_of(letters_of(run))
                targets = ", ".join(f"{target}.{f.name}" for f in run)
                self.line(f"({targets},) = {name}_unpack(buf, pos); pos += {size}")
            else:
                self.field(run[0], f"{target}.{run[0].name}")
        if self.flexible:
            self.tagged(cls, target)

    def default(self, field: Field, target: str) -> None:
        assert field.default is not None
        value = field.default()
        if isinstance(value, int | float | str | bytes | uuid.UUID | None):
            self.line(f"{target} = {self.constant('default', value)}")
        else:
            self.line(f"{target} = {self.constant('default', field.default)}()")

    def tagged(self, cls: type, target: str) -> None:
        count = self.name("count")
        self.line(f"{count} = buf[pos]; pos += 1")
        self.line(f"if {count}:")
        self.depth += 1
        self.line(f"if {count} > 127: {count}, pos = read_uvarint(buf, pos - 1)")
        self.line(f"check_tagged({count})")
        fields = self.tagged_fields(cls)
        if not fields:
            self.line(f"pos = skip_tagged(buf, pos, {count})")
            self.depth -= 1
            return
        tag, length, end = self.name("tag"), self.name("length"), self.name("end")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        self.line(f"{tag}, pos = read_uvarint(buf, pos)")
        self.line(f"{length}, pos = read_uvarint(buf, pos)")
        self.line(f"check_length({length}, size - pos); {end} = pos + {length}")
        for number, field in enumerate(fields):
            self.line(f"{'if' if number == 0 else 'elif'} {tag} == {field.presence.tag}:")
            self.depth += 1
            self.field(field, f"{target}.{field.name}")
            self.line(f"if pos != {end}: raise MalformedMessageError('tagged field {field.name}')")
            self.depth -= 1
        self.line(f"else: pos = {end}")
        self.depth -= 2

    def field(self, field: Field, target: str) -> None:
        kind = field.type
        if kind.is_list:
            self.list(field, target)
        elif isinstance(kind.element, type):
            self.nested(field, kind.element, target)
        else:
            self.scalar(kind.element, self.nullable(field), target)

    def nested(self, field: Field, cls: type, target: str) -> None:
        nullable = self.nullable(field)
        if nullable:
            marker = self.name("marker")
            self.line(f"{marker} = buf[pos]; pos += 1")
            # -1 is null; of a tagged field it is 0, as Kafka reads and writes it.
            is_null = "== 0" if self.is_tagged(field) else "> 127"
            self.line(f"if {marker} {is_null}: {target} = None")
            self.line("else:")
            self.depth += 1
        value = self.name("struct")
        self.line(f"{value} = {target} = {self.new(cls)}")
        self.body(cls, value)
        if nullable:
            self.depth -= 1

    def length(self, wide: str) -> str:
        """Lines that read a length into a new variable; null is -1."""
        name = self.name("n")
        if self.flexible:
            self.line(f"{name} = buf[pos] - 1; pos += 1")
            self.line(f"if {name} > 126: {name}, pos = read_uvarint(buf, pos - 1); {name} -= 1")
        else:
            unpack, size = self.struct_of(wide)
            self.line(f"({name},) = {unpack}_unpack(buf, pos); pos += {size}")
        return name

    def null_or(self, length: str, nullable: bool, target: str) -> None:
        """Lines for null; then begins the branch of other values."""
        if nullable:
            self.line(f"if {length} == -1: {target} = None")
        else:
            self.line(f"if {length} == -1: reject_null({target!r})")
        self.line("else:")
        self.depth += 1

    def list(self, field: Field, target: str) -> None:
        length = self.length("i")
        self.null_or(length, self.nullable(field), target)
        element = field.type.element
        if isinstance(element, Fixed):
            width = struct_module.calcsize(">" + element.letter)
            unpack = self.constant("unpack", struct_module.unpack_from)
            self.line(f"check_length({length} * {width}, size - pos)")
            self.before_elements(length)
            self.line(f'{target} = list({unpack}(f">{{{length}}}{element.letter}", buf, pos))')
            self.line(f"pos += {length} * {width}")
            self.depth -= 1
            return
        self.line(f"check_length({length}, size - pos)")
        self.before_elements(length)
        if field.type.in_columns and self.reads_columns:
            assert isinstance(element, type)
            decode = self.constant("columns", self.columns_codec(element).decode)
            self.line(f"{target}, pos = {decode}(buf, pos, {length})")
            self.depth -= 1
            return
        items = self.name("items")
        self.line(f"{items} = {target} = []")
        self.line(f"for _ in range({length}):")
        self.depth += 1
        self.before_element()
        item = self.name("item")
        if isinstance(element, type):
            self.line(f"{item} = {self.new(element)}")
            self.body(element, item)
        else:
            self.scalar(element, field.type.element_is_nullable, item)
        self.line(f"{items}.append({item})")
        self.depth -= 2

    def scalar(self, kind: Any, nullable: bool, target: str) -> None:
        if isinstance(kind, Fixed):
            unpack, width = self.struct_of(kind.letter)
            self.line(f"({target},) = {unpack}_unpack(buf, pos); pos += {width}")
            return
        if isinstance(kind, UuidType):
            self.line("check_length(16, size - pos)")
            self.line(f"{target} = uuid_of(bytes(buf[pos:pos + 16])); pos += 16")
            return
        length = self.length("h" if isinstance(kind, StringType) else "i")
        self.null_or(length, nullable, target)
        end = self.name("end")
        self.line(f"{end} = pos + {length}")
        self.line(f"if {length} < 0 or {end} > size: check_length({length}, size - pos)")
        if isinstance(kind, StringType) and self.flexible:
            # As in Kafka: older versions could not encode a longer string.
            self.line(f"if {length} > 32767: check_length({length}, 32767)")
        if isinstance(kind, StringType):
            self.line(f'{target} = str(buf[pos:{end}], "utf-8"); pos = {end}')
        elif isinstance(kind, BytesType):
            self.line(f"{target} = bytes(buf[pos:{end}]); pos = {end}")
        else:
            self.line(f"{target} = buf[pos:{end}]; pos = {end}")
        self.depth -= 1


class SlicedDecoderSource(DecoderSource):
    """Generates a generator that yields after every few elements, and limits their number."""

    reads_columns = False

    def signature(self) -> str:
        return "def decode(buf, pos, left):"

    def function(self, cls: type) -> None:
        super().function(cls)
        self.line("yield")  # never reached: it makes a generator of a function without lists

    def before_body(self) -> None:
        self.line("step = 0")

    def before_elements(self, count: str) -> None:
        self.line(f"left -= {count}")
        self.line("if left < 0: reject_count()")

    def before_element(self) -> None:
        self.line("step += 1")
        self.line(f"if not step % {SLICE_ELEMENTS}: yield")
