"""From the text of a `.proto` file to a FileDescriptorProto, as protoc makes it: proto2, proto3 and editions.

Names of types are left as they are written; protobuf's DescriptorPool resolves them, and checks the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb

from ottla.schemas.compatibility.parsed_schema import (
    MAX_DEPTH,
    SchemaError,
    SchemaTooComplexError,
)
from ottla.schemas.compatibility.proto_tokens import Tokens, integer_value

Field = pb.FieldDescriptorProto
SCALARS: Final = {
    "double": Field.TYPE_DOUBLE,
    "float": Field.TYPE_FLOAT,
    "int64": Field.TYPE_INT64,
    "uint64": Field.TYPE_UINT64,
    "int32": Field.TYPE_INT32,
    "fixed64": Field.TYPE_FIXED64,
    "fixed32": Field.TYPE_FIXED32,
    "bool": Field.TYPE_BOOL,
    "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES,
    "uint32": Field.TYPE_UINT32,
    "sfixed32": Field.TYPE_SFIXED32,
    "sfixed64": Field.TYPE_SFIXED64,
    "sint32": Field.TYPE_SINT32,
    "sint64": Field.TYPE_SINT64,
}
LABELS: Final = {
    "optional": Field.LABEL_OPTIONAL,
    "required": Field.LABEL_REQUIRED,
    "repeated": Field.LABEL_REPEATED,
}
MAX_FIELD_NUMBER: Final = 2**29 - 1
MAX_ENUM_NUMBER: Final = 2**31 - 1
EDITIONS: Final = {"2023": pb.EDITION_2023, "2024": pb.EDITION_2024}

# Numbers of the fields of descriptors, of which the paths of comments consist.
FILE_MESSAGE, FILE_ENUM, FILE_SERVICE, FILE_EXTENSION = 4, 5, 6, 7
MESSAGE_FIELD, MESSAGE_NESTED, MESSAGE_ENUM, MESSAGE_EXTENSION, MESSAGE_ONEOF = 2, 3, 4, 6, 8
ENUM_VALUE, SERVICE_METHOD = 2, 2

Path = tuple[int, ...]


def parse_proto(text: str, name: str) -> pb.FileDescriptorProto:
    """Read a file; raises SchemaError at what is no `.proto`."""
    return _Parser(text, name).file()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._tokens = Tokens(text)
        self._file = pb.FileDescriptorProto(name=name)

    # The file

    def file(self) -> pb.FileDescriptorProto:
        tokens = self._tokens
        self._syntax()
        while tokens.next.kind != "end":
            match tokens.next.text:
                case "import":
                    self._import()
                case "package":
                    tokens.take()
                    self._file.package = tokens.full_name()
                    tokens.expect(";")
                case "option":
                    self._option_statement(self._file.options)
                case "message":
                    path = (FILE_MESSAGE, len(self._file.message_type))
                    self._message(self._file.message_type.add(), path)
                case "enum":
                    path = (FILE_ENUM, len(self._file.enum_type))
                    self._enum(self._file.enum_type.add(), path)
                case "service":
                    path = (FILE_SERVICE, len(self._file.service))
                    self._service(self._file.service.add(), path)
                case "extend":
                    self._extend(
                        self._file.extension, self._file.message_type, (FILE_EXTENSION,), 0
                    )
                case ";":
                    tokens.take()
                case _:
                    raise tokens.error("message, enum, import, package, option or service")
        return self._file

    def _syntax(self) -> None:
        tokens = self._tokens
        if tokens.has("syntax"):
            tokens.expect("=")
            syntax = tokens.text()
            if syntax not in ("proto2", "proto3"):
                raise SchemaError(f'syntax is "proto2" or "proto3", not "{syntax}"')
            if syntax == "proto3":
                self._file.syntax = syntax
            tokens.expect(";")
        elif tokens.has("edition"):
            tokens.expect("=")
            edition = tokens.text()
            if edition not in EDITIONS:
                raise SchemaError(f"edition {edition} is not known: use {', '.join(EDITIONS)}")
            self._file.syntax = "editions"
            self._file.edition = EDITIONS[edition]
            tokens.expect(";")

    @property
    def _is_proto3(self) -> bool:
        return self._file.syntax == "proto3"

    def _import(self) -> None:
        tokens = self._tokens
        tokens.take()
        index = len(self._file.dependency)
        if tokens.has("public"):
            self._file.public_dependency.append(index)
        elif tokens.has("weak"):
            self._file.weak_dependency.append(index)
        self._file.dependency.append(tokens.text())
        tokens.expect(";")

    def _comment(self, path: Path, leading: str) -> None:
        """Keep the comments before and behind an element."""
        text = "\n".join(each for each in (leading, self._tokens.next.trailing) if each)
        if text:
            self._file.source_code_info.location.add(path=path, leading_comments=text)

    # Messages

    def _message(self, message: pb.DescriptorProto, path: Path) -> None:
        leading = self._tokens.take().leading
        message.name = self._tokens.name()
        self._tokens.expect("{")
        self._comment(path, leading)
        self._message_body(message, path)

    def _message_body(self, message: pb.DescriptorProto, path: Path) -> None:
        if len(path) > 2 * MAX_DEPTH:
            raise SchemaTooComplexError(f"messages are nested more than {MAX_DEPTH} levels deep")
        while not self._tokens.has("}"):
            self._message_element(message, path)
        self._add_synthetic_oneofs(message)

    def _message_element(self, message: pb.DescriptorProto, path: Path) -> None:
        tokens = self._tokens
        match tokens.next.text:
            case "message" if self._is_declaration():
                inner = (*path, MESSAGE_NESTED, len(message.nested_type))
                self._message(message.nested_type.add(), inner)
            case "enum" if self._is_declaration():
                inner = (*path, MESSAGE_ENUM, len(message.enum_type))
                self._enum(message.enum_type.add(), inner)
            case "option":
                self._option_statement(message.options)
            case "oneof" if self._is_declaration():
                self._oneof(message, path)
            case "reserved":
                self._reserved(message, MAX_FIELD_NUMBER, 1)
            case "extensions":
                self._extensions(message)
            case "extend":
                self._extend(
                    message.extension, message.nested_type, (*path, MESSAGE_EXTENSION), len(path)
                )
            case ";":
                tokens.take()
            case _ if tokens.next.kind in ("name", "symbol") and tokens.next.text != "}":
                inner = (*path, MESSAGE_FIELD, len(message.field))
                field = message.field.add()
                self._field(field, message.nested_type, inner)
            case _:
                raise tokens.error("a field")

    def _is_declaration(self) -> bool:
        """Whether a keyword begins a declaration; it may be the name of a field's type, too."""
        return self._tokens.after_next().kind == "name" and self._tokens.after_next(2).text == "{"

    def _field(self, field: Field, nested: Any, path: Path) -> None:
        """A field of a message; the messages of maps and groups go to `nested`."""
        tokens = self._tokens
        leading = tokens.next.leading
        label = tokens.next.text
        if label in LABELS and not self._names_a_type():
            tokens.take()
            field.label = LABELS[label]
            field.proto3_optional = self._is_proto3 and label == "optional"
            if not field.proto3_optional:
                field.ClearField("proto3_optional")
        else:
            field.label = Field.LABEL_OPTIONAL
        if tokens.next.text == "map" and self._begins_map():
            self._map(field, nested)
        elif tokens.next.text == "group" and not self._names_a_type():
            self._group(field, nested, path)
            return
        else:
            self._type(field)
            field.name = tokens.name()
        self._numbered(field, path, leading)

    def _names_a_type(self) -> bool:
        return self._tokens.after_next().text in ("=", ".")

    def _begins_map(self) -> bool:
        return self._tokens.after_next().text == "<"

    def _type(self, field: Field) -> None:
        name = self._tokens.full_name()
        if name in SCALARS:
            field.type = SCALARS[name]
        else:
            field.type_name = name

    def _numbered(self, field: Field, path: Path, leading: str) -> None:
        self._tokens.expect("=")
        field.number = _in_range(self._tokens.integer(), MAX_ENUM_NUMBER)
        self._field_options(field)
        self._tokens.expect(";")
        self._comment(path, leading)

    def _map(self, field: Field, nested: Any) -> None:
        tokens = self._tokens
        tokens.take()
        tokens.expect("<")
        entry = nested.add()
        entry.options.map_entry = True
        for index, name in enumerate(("key", "value")):
            part = entry.field.add(name=name, number=index + 1, label=Field.LABEL_OPTIONAL)
            self._type(part)
            tokens.expect("," if index == 0 else ">")
        field.label = Field.LABEL_REPEATED
        field.name = tokens.name()
        entry.name = _camel_case(field.name) + "Entry"
        field.type_name = entry.name

    def _group(self, field: Field, nested: Any, path: Path) -> None:
        tokens = self._tokens
        tokens.take()
        message = nested.add(name=tokens.name())
        field.name = message.name.lower()
        field.type = Field.TYPE_GROUP
        field.type_name = message.name
        tokens.expect("=")
        field.number = _in_range(tokens.integer(), MAX_ENUM_NUMBER)
        self._field_options(field)
        tokens.expect("{")
        self._message_body(message, (*path[:-2], MESSAGE_NESTED, len(nested) - 1))

    def _oneof(self, message: pb.DescriptorProto, path: Path) -> None:
        tokens = self._tokens
        leading = tokens.take().leading
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=tokens.name())
        tokens.expect("{")
        self._comment((*path, MESSAGE_ONEOF, index), leading)
        while not tokens.has("}"):
            if tokens.next.text == "option":
                self._option_statement(oneof.options)
            elif not tokens.has(";"):
                if tokens.next.text in LABELS and not self._names_a_type():
                    raise tokens.error("a field without a label, as those of a oneof are")
                field = message.field.add(oneof_index=index)
                inner = (*path, MESSAGE_FIELD, len(message.field) - 1)
                self._field(field, message.nested_type, inner)

    def _add_synthetic_oneofs(self, message: pb.DescriptorProto) -> None:
        # An optional field of proto3 is a oneof of its own, so that its presence is known.
        taken = {oneof.name for oneof in message.oneof_decl} | {each.name for each in message.field}
        for field in message.field:
            if field.proto3_optional:
                name = f"_{field.name}"
                while name in taken:
                    name = f"X{name}"
                taken.add(name)
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=name)

    def _reserved(self, target: Any, maximum: int, past_end: int) -> None:
        """Reserved names and ranges; the end of a message's range is exclusive, that of an enum's is not."""
        tokens = self._tokens
        tokens.take()

        def read() -> None:
            if tokens.next.kind == "string":
                target.reserved_name.append(tokens.text())
            elif tokens.next.kind == "name":
                target.reserved_name.append(tokens.name())
            else:
                start, end = self._range(maximum)
                target.reserved_range.add(start=start, end=end + past_end)

        tokens.separated(read)
        tokens.expect(";")

    def _extensions(self, message: pb.DescriptorProto) -> None:
        tokens = self._tokens
        tokens.take()
        first = len(message.extension_range)

        def read() -> None:
            start, end = self._range(MAX_FIELD_NUMBER)
            message.extension_range.add(start=start, end=end + 1)

        tokens.separated(read)
        if tokens.has("["):
            options = pb.ExtensionRangeOptions()
            tokens.separated(lambda: self._option(options))
            tokens.expect("]")
            for each in message.extension_range[first:]:
                each.options.CopyFrom(options)
        tokens.expect(";")

    def _range(self, maximum: int) -> tuple[int, int]:
        start = _in_range(self._tokens.integer(), maximum)
        if not self._tokens.has("to"):
            return start, start
        if self._tokens.has("max"):
            return start, maximum
        return start, _in_range(self._tokens.integer(), maximum)

    def _extend(self, extensions: Any, nested: Any, path: Path, depth: int) -> None:
        tokens = self._tokens
        tokens.take()
        extendee = tokens.full_name()
        tokens.expect("{")
        while not tokens.has("}"):
            if not tokens.has(";"):
                field = extensions.add(extendee=extendee)
                self._field(field, nested, (*path, len(extensions) - 1))

    # Enums and services

    def _enum(self, enum: pb.EnumDescriptorProto, path: Path) -> None:
        tokens = self._tokens
        leading = tokens.take().leading
        enum.name = tokens.name()
        tokens.expect("{")
        self._comment(path, leading)
        while not tokens.has("}"):
            match tokens.next.text:
                case "option":
                    self._option_statement(enum.options)
                case "reserved":
                    self._reserved(enum, MAX_ENUM_NUMBER, 0)
                case ";":
                    tokens.take()
                case _:
                    self._enum_value(enum, path)

    def _enum_value(self, enum: pb.EnumDescriptorProto, path: Path) -> None:
        tokens = self._tokens
        leading = tokens.next.leading
        value = enum.value.add(name=tokens.name())
        tokens.expect("=")
        value.number = _in_range(tokens.integer(), MAX_ENUM_NUMBER)
        self._bracketed(lambda: self._option(value.options))
        tokens.expect(";")
        self._comment((*path, ENUM_VALUE, len(enum.value) - 1), leading)

    def _service(self, service: pb.ServiceDescriptorProto, path: Path) -> None:
        tokens = self._tokens
        leading = tokens.take().leading
        service.name = tokens.name()
        tokens.expect("{")
        self._comment(path, leading)
        while not tokens.has("}"):
            match tokens.next.text:
                case "option":
                    self._option_statement(service.options)
                case ";":
                    tokens.take()
                case "rpc":
                    self._method(service, path)
                case _:
                    raise tokens.error("rpc or option")

    def _method(self, service: pb.ServiceDescriptorProto, path: Path) -> None:
        tokens = self._tokens
        leading = tokens.take().leading
        method = service.method.add(name=tokens.name())
        tokens.expect("(")
        if tokens.next.text == "stream" and not self._names_a_type_in_brackets():
            tokens.take()
            method.client_streaming = True
        method.input_type = tokens.full_name()
        tokens.expect(")")
        tokens.expect("returns")
        tokens.expect("(")
        if tokens.next.text == "stream" and not self._names_a_type_in_brackets():
            tokens.take()
            method.server_streaming = True
        method.output_type = tokens.full_name()
        tokens.expect(")")
        if tokens.has("{"):
            while not tokens.has("}"):
                if not tokens.has(";"):
                    self._option_statement(method.options)
        else:
            tokens.expect(";")
        self._comment((*path, SERVICE_METHOD, len(service.method) - 1), leading)

    def _names_a_type_in_brackets(self) -> bool:
        return self._tokens.after_next().text in (")", ".")

    # Options

    def _bracketed(self, read: Callable[[], None]) -> None:
        if self._tokens.has("["):
            self._tokens.separated(read)
            self._tokens.expect("]")

    def _field_options(self, field: Field) -> None:
        def read() -> None:
            if self._tokens.has("default"):
                self._tokens.expect("=")
                field.default_value = self._default(field)
            elif self._tokens.has("json_name"):
                self._tokens.expect("=")
                field.json_name = self._tokens.text()
            else:
                self._option(field.options)

        self._bracketed(read)

    def _default(self, field: Field) -> str:
        tokens = self._tokens
        if tokens.next.kind == "string":
            value = tokens.string()
            return _escaped(value) if field.type == Field.TYPE_BYTES else _text_of(value)
        sign = "-" if tokens.has("-") else ""
        token = tokens.take()
        if token.kind == "int":
            number = integer_value(token.text)
            if field.type in (Field.TYPE_FLOAT, Field.TYPE_DOUBLE):
                return _float_text(float(f"{sign}{number}"))
            return f"{sign}{number}"
        if token.kind == "float":
            return _float_text(float(sign + token.text.rstrip("f")))
        if token.kind == "name":
            return sign + token.text
        raise tokens.error("a default value")

    def _option_statement(self, options: Any) -> None:
        self._tokens.expect("option")
        self._option(options)
        self._tokens.expect(";")

    def _option(self, options: Any) -> None:
        tokens = self._tokens
        parts: list[tuple[str, bool]] = [self._option_name()]
        while tokens.has("."):
            parts.append(self._option_name())
        tokens.expect("=")
        name, is_extension = parts[0]
        known = options.DESCRIPTOR.fields_by_name.get(name)
        if len(parts) == 1 and not is_extension and known is not None and not known.message_type:
            self._known_option(options, known)
        else:
            self._other_option(options, parts)

    def _option_name(self) -> tuple[str, bool]:
        if self._tokens.has("("):
            name = self._tokens.full_name()
            self._tokens.expect(")")
            return name, True
        return self._tokens.name(), False

    def _known_option(self, options: Any, known: Any) -> None:
        tokens = self._tokens
        value: Any
        if known.enum_type is not None:
            text = tokens.name()
            if text not in known.enum_type.values_by_name:
                raise SchemaError(f"option {known.name} has no value {text}")
            value = known.enum_type.values_by_name[text].number
        elif known.cpp_type == known.CPPTYPE_BOOL:
            text = tokens.name()
            if text not in ("true", "false"):
                raise SchemaError(f"option {known.name} is true or false, not {text}")
            value = text == "true"
        elif known.cpp_type == known.CPPTYPE_STRING:
            value = tokens.text()
        else:
            value = tokens.integer()
        try:
            if known.is_repeated:
                getattr(options, known.name).append(value)
            else:
                setattr(options, known.name, value)
        except (TypeError, ValueError) as error:
            raise SchemaError(
                f"option {known.name} has a value of another type: {error}"
            ) from error

    def _other_option(self, options: Any, parts: list[tuple[str, bool]]) -> None:
        """An option that only those who know its extension understand; it is kept as it is written."""
        tokens = self._tokens
        option = options.uninterpreted_option.add()
        for name, is_extension in parts:
            option.name.add(name_part=name, is_extension=is_extension)
        token = tokens.next
        if token.kind == "string":
            option.string_value = tokens.string()
        elif token.text == "{":
            option.aggregate_value = self._aggregate()
        elif token.kind == "name":
            option.identifier_value = tokens.name()
        else:
            sign = -1 if tokens.has("-") else 1
            token = tokens.take()
            if token.kind == "int" and sign > 0:
                option.positive_int_value = _in_range(integer_value(token.text), 2**64 - 1)
            elif token.kind == "int":
                option.negative_int_value = -_in_range(integer_value(token.text), 2**63)
            elif token.kind == "float":
                option.double_value = sign * float(token.text.rstrip("f"))
            elif token.kind == "name" and token.text in ("inf", "nan"):
                option.double_value = sign * float(token.text)
            else:
                raise tokens.error("the value of an option")

    def _aggregate(self) -> str:
        """What is between braces, token by token."""
        self._tokens.expect("{")
        depth = 1
        parts: list[str] = []
        while True:
            token = self._tokens.take()
            if token.kind == "end":
                raise self._tokens.error("'}'")
            depth += (token.text == "{") - (token.text == "}")
            if depth == 0 and token.text == "}":
                return " ".join(parts)
            parts.append(token.text)


def _in_range(value: int, maximum: int) -> int:
    if not -maximum - 1 <= value <= maximum:
        raise SchemaError(f"{value} is out of range")
    return value


def _camel_case(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _text_of(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise SchemaError("a default value is not UTF-8") from error


def _escaped(value: bytes) -> str:
    """Bytes as descriptors have them: escaped as in C."""
    simple = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(
        simple.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value
    )


def _float_text(value: float) -> str:
    text = repr(value)
    return text.removesuffix(".0") if text.endswith(".0") and "e" not in text else text
