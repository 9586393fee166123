"""Generates the encoding half of a codec."""

from __future__ import annotations

import struct as struct_module
from typing import Any

from ottla.wire.declare import Field
from ottla.wire.primitives import write_uvarint
from ottla.wire.source import INDENT, SLICE_ELEMENTS, SourceWriter, is_fixed, letters_of, runs_of
from ottla.wire.types import Fixed, RecordsType, StringType, UuidType

# Shorter records are copied: cheaper than one more buffer in a writev.
INLINE_RECORDS_BYTES = 4096


class EncoderSource(SourceWriter):
    # Whether columns are written at once; not where a list is written in slices.
    writes_columns = True

    def function(self, cls: type) -> None:
        self.line("def encode(m, out, parts):")
        self.depth += 1
        self.before_body()
        self.body(cls, "m")
        self.line("return out")

    def before_body(self) -> None:
        """Lines before the first field."""

    def before_element(self) -> None:
        """Lines at the start of each round of a list's loop."""

    def body(self, cls: type, source: str) -> None:
        for run in runs_of(self.plain_fields(cls)):
            if is_fixed(run[0]):
                name, _ = self.struct_of(letters_of(run))
                values = ", ".join(f"{source}.{f.name}" for f in run)
                self.line(f"out += {name}_pack({values})")
            else:
                self.field(run[0], f"{source}.{run[0].name}")
        if self.flexible:
            self.tagged(cls, source)

    def tagged(self, cls: type, source: str) -> None:
        fields = self.tagged_fields(cls)
        if not fields:
            self.line('out += b"\\0"')
            return
        count, tail, outer = self.name("count"), self.name("tail"), self.name("outer")
        values = {field: self.name("value") for field in fields}
        for field, value in values.items():
            self.line(f"{value} = {source}.{field.name}")
        # Mostly nothing is set, and defaults are often the very same object.
        unset = {field: self.is_unset(field, value) for field, value in values.items()}
        self.line(f"if {' and '.join(unset.values())}:")
        self.line(f'{INDENT}out += b"\\0"')
        self.line("else:")
        self.depth += 1
        self.line(f"{count} = 0; {tail} = bytearray(); {outer} = out")
        for field, value in values.items():
            self.line(f"if not ({unset[field]}):")
            self.depth += 1
            self.line(f"{count} += 1; out = bytearray()")
            self.field(field, value)
            tag = self.constant("tag", write_uvarint(field.presence.tag or 0))
            self.line(f"{tail} += {tag}; {tail} += write_uvarint(len(out)); {tail} += out")
            self.depth -= 1
        self.line(f"out = {outer}; out += write_uvarint({count}); out += {tail}")
        self.depth -= 1

    def is_unset(self, field: Field, value: str) -> str:
        """An expression for whether a tagged field has its default, and so is not written."""
        assert field.default is not None
        default = field.default()
        if default == []:
            return f"{value} == []"
        name = self.constant("default", default)
        return f"({value} is {name} or {value} == {name})"

    def field(self, field: Field, source: str) -> None:
        kind = field.type
        if kind.is_list:
            self.list(field, source)
        elif isinstance(kind.element, type):
            self.nested(field, kind.element, source)
        else:
            self.scalar(kind.element, self.nullable(field), source)

    def nested(self, field: Field, cls: type, source: str) -> None:
        value = self.name("struct")
        self.line(f"{value} = {source}")
        if not self.nullable(field):
            self.body(cls, value)
            return
        # A nullable struct carries a marker: -1 for null, or 0 in a tagged field, 1 otherwise.
        null = "\\0" if self.is_tagged(field) else "\\xff"
        self.line(f"if {value} is None:")
        self.line(f'{INDENT}out += b"{null}"')
        self.line("else:")
        self.depth += 1
        self.line('out += b"\\x01"')
        self.body(cls, value)
        self.depth -= 1

    def list(self, field: Field, source: str) -> None:
        items = self.name("items")
        self.line(f"{items} = {source}")
        nullable = self.nullable(field)
        if nullable:
            null = '"\\0"' if self.flexible else '"\\xff\\xff\\xff\\xff"'
            self.line(f"if {items} is None:")
            self.line(f"{INDENT}out += b{null}")
            self.line("else:")
            self.depth += 1
        self.list_items(field, items)
        if nullable:
            self.depth -= 1

    def list_items(self, field: Field, items: str) -> None:
        if self.flexible:
            self.line(f"out += length_prefix(len({items}))")
        else:
            name, _ = self.struct_of("i")
            self.line(f"out += {name}_pack(len({items}))")
        element = field.type.element
        if isinstance(element, Fixed):
            pack = self.constant("pack", struct_module.pack)
            self.line(f'out += {pack}(f">{{len({items})}}{element.letter}", *{items})')
            return
        if field.type.in_columns and self.writes_columns:
            assert isinstance(element, type)
            encode = self.constant("columns", self.columns_codec(element).encode)
            self.line(f"if type({items}) is Columns: {encode}(out, {items})")
            self.line("else:")
            self.depth += 1
            self.each(field, items)
            self.depth -= 1
        else:
            self.each(field, items)

    def each(self, field: Field, items: str) -> None:
        """A loop over the elements."""
        element = field.type.element
        item = self.name("item")
        self.line(f"for {item} in {items}:")
        self.depth += 1
        self.before_element()
        if isinstance(element, type):
            self.body(element, item)
        else:
            self.scalar(element, field.type.element_is_nullable, item)
        self.depth -= 1

    def scalar(self, kind: Any, nullable: bool, source: str) -> None:
        if isinstance(kind, Fixed):
            name, _ = self.struct_of(kind.letter)
            self.line(f"out += {name}_pack({source})")
            return
        if isinstance(kind, UuidType):
            self.line(f"out += uuid_bytes({source})")
            return
        data = self.name("data")
        self.line(f"{data} = {source}")
        if nullable:
            wide = '"\\xff\\xff"' if isinstance(kind, StringType) else '"\\xff\\xff\\xff\\xff"'
            null = '"\\0"' if self.flexible else wide
            self.line(f"if {data} is None:")
            self.line(f"{INDENT}out += b{null}")
            self.line("else:")
            self.depth += 1
        self.sized(kind, data)
        if nullable:
            self.depth -= 1

    def sized(self, kind: Any, data: str) -> None:
        if isinstance(kind, StringType):
            self.line(f"{data} = {data}.encode()")
        if self.flexible:
            self.line(f"out += length_prefix(len({data}))")
        else:
            name, _ = self.struct_of("h" if isinstance(kind, StringType) else "i")
            self.line(f"out += {name}_pack(len({data}))")
        if not isinstance(kind, RecordsType):
            self.line(f"out += {data}")
            return
        self.line(f"if len({data}) < {INLINE_RECORDS_BYTES}:")
        self.line(f"{INDENT}out += {data}")
        self.line("else:")
        self.line(f"{INDENT}parts.append(out); parts += pieces_of({data}); out = bytearray()")


class SlicedEncoderSource(EncoderSource):
    """Generates a generator that yields after every few elements."""

    writes_columns = False

    def function(self, cls: type) -> None:
        super().function(cls)
        self.line("yield")  # never reached: it makes a generator of a function without lists

    def before_body(self) -> None:
        self.line("step = 0")

    def before_element(self) -> None:
        self.line("step += 1")
        self.line(f"if not step % {SLICE_ELEMENTS}: yield")
