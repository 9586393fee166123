"""From a FileDescriptorProto to the text of a `.proto` file: the same text for the same descriptor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2 as pb

from ottla.schemas.compatibility.proto_parser import (
    EDITIONS,
    ENUM_VALUE,
    FILE_ENUM,
    FILE_EXTENSION,
    FILE_MESSAGE,
    FILE_SERVICE,
    LABELS,
    MAX_ENUM_NUMBER,
    MAX_FIELD_NUMBER,
    MESSAGE_ENUM,
    MESSAGE_EXTENSION,
    MESSAGE_FIELD,
    MESSAGE_NESTED,
    MESSAGE_ONEOF,
    SCALARS,
    SERVICE_METHOD,
    Field,
    Path,
)

_SCALAR_NAMES: Final = {number: name for name, number in SCALARS.items()}
_LABEL_NAMES: Final = {number: name for name, number in LABELS.items()}
_EDITION_NAMES: Final = {number: name for name, number in EDITIONS.items()}


def print_proto(file: pb.FileDescriptorProto) -> str:
    """The text of a file, whose types are resolved."""
    return "\n".join(_Printer(file).file()) + "\n"


class _Printer:
    def __init__(self, file: pb.FileDescriptorProto) -> None:
        self._file = file
        self._comments = {
            tuple(each.path): each.leading_comments for each in file.source_code_info.location
        }
        self._scopes: list[pb.DescriptorProto] = []

    def file(self) -> Iterator[str]:
        file = self._file
        if file.syntax == "editions":
            yield f'edition = "{_EDITION_NAMES[file.edition]}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        if file.dependency:
            yield ""
            yield from self._imports()
        options = list(_options(file.options))
        if options:
            yield ""
            yield from (f"option {option};" for option in options)
        for index, message in enumerate(file.message_type):
            yield ""
            yield from self._message(message, (FILE_MESSAGE, index), "")
        for index, enum in enumerate(file.enum_type):
            yield ""
            yield from self._enum(enum, (FILE_ENUM, index), "")
        yield from self._extensions(file.extension, file.message_type, (FILE_EXTENSION,), "")
        for index, service in enumerate(file.service):
            yield ""
            yield from self._service(service, (FILE_SERVICE, index))

    def _imports(self) -> Iterator[str]:
        for index, name in enumerate(self._file.dependency):
            kind = ""
            if index in self._file.public_dependency:
                kind = "public "
            elif index in self._file.weak_dependency:
                kind = "weak "
            yield f"import {kind}{_quoted(name)};"

    def _comment(self, path: Path, indent: str) -> Iterator[str]:
        for line in self._comments.get(path, "").splitlines():
            yield f"{indent}// {line.strip()}".rstrip()

    # Messages

    def _message(self, message: pb.DescriptorProto, path: Path, indent: str) -> Iterator[str]:
        yield from self._comment(path, indent)
        yield f"{indent}message {message.name} {{"
        yield from self._message_body(message, path, indent + "  ")
        yield f"{indent}}}"

    def _message_body(self, message: pb.DescriptorProto, path: Path, indent: str) -> Iterator[str]:
        self._scopes.append(message)
        for option in _options(message.options):
            yield f"{indent}option {option};"
        yield from _reserved(message, indent, MAX_FIELD_NUMBER, 1)
        for span in message.extension_range:
            options = _bracketed(_options(span.options))
            yield f"{indent}extensions {_range(span.start, span.end - 1, MAX_FIELD_NUMBER)}{options};"
        printed: set[int] = set()
        for index, field in enumerate(message.field):
            place = (*path, MESSAGE_FIELD, index)
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, message.nested_type, place, indent)
            elif field.oneof_index not in printed:
                printed.add(field.oneof_index)
                yield from self._oneof(message, field.oneof_index, path, indent)
        groups = _group_names(message.field) | _group_names(message.extension)
        for index, nested in enumerate(message.nested_type):
            if not nested.options.map_entry and nested.name not in groups:
                yield from self._message(nested, (*path, MESSAGE_NESTED, index), indent)
        for index, enum in enumerate(message.enum_type):
            yield from self._enum(enum, (*path, MESSAGE_ENUM, index), indent)
        yield from self._extensions(
            message.extension, message.nested_type, (*path, MESSAGE_EXTENSION), indent
        )
        self._scopes.pop()

    def _oneof(
        self, message: pb.DescriptorProto, number: int, path: Path, indent: str
    ) -> Iterator[str]:
        oneof = message.oneof_decl[number]
        yield from self._comment((*path, MESSAGE_ONEOF, number), indent)
        yield f"{indent}oneof {oneof.name} {{"
        for option in _options(oneof.options):
            yield f"{indent}  option {option};"
        for index, field in enumerate(message.field):
            if field.HasField("oneof_index") and field.oneof_index == number:
                place = (*path, MESSAGE_FIELD, index)
                yield from self._field(field, message.nested_type, place, indent + "  ")
        yield f"{indent}}}"

    def _field(self, field: Field, nested: Any, path: Path, indent: str) -> Iterator[str]:
        yield from self._comment(path, indent)
        entry = _map_entry(field, nested)
        options = _bracketed([*_options(field.options), *_pseudo_options(field)])
        if entry is not None:
            key, value = (self._type(each) for each in entry.field)
            yield f"{indent}map<{key}, {value}> {field.name} = {field.number}{options};"
            return
        label = self._label(field)
        if field.type == Field.TYPE_GROUP:
            name = field.type_name.rpartition(".")[2]
            index = next(i for i, each in enumerate(nested) if each.name == name)
            yield f"{indent}{label}group {name} = {field.number}{options} {{"
            place = (*path[:-2], MESSAGE_NESTED, index)
            yield from self._message_body(nested[index], place, indent + "  ")
            yield f"{indent}}}"
            return
        yield f"{indent}{label}{self._type(field)} {field.name} = {field.number}{options};"

    def _label(self, field: Field) -> str:
        if field.label != Field.LABEL_OPTIONAL:
            return f"{_LABEL_NAMES[field.label]} "
        if field.proto3_optional:
            return "optional "
        is_proto2 = self._file.syntax in ("", "proto2")
        return "optional " if is_proto2 and not field.HasField("oneof_index") else ""

    def _type(self, field: Field) -> str:
        return _SCALAR_NAMES.get(field.type) or self._name(field.type_name)

    def _name(self, full_name: str) -> str:
        """A type's name as short as it means the same: without the package of the file."""
        if not full_name.startswith("."):
            return full_name
        package = self._file.package
        name = full_name[1:]
        if package and name.startswith(f"{package}."):
            name = name[len(package) + 1 :]
        first = name.partition(".")[0]
        scopes = [
            [*(inner.name for inner in each.nested_type), *(inner.name for inner in each.enum_type)]
            for each in self._scopes
        ]
        is_shadowed = any(
            each == first and f".{package}.{name}".replace("..", ".") != self._scoped(depth, name)
            for depth, some in enumerate(scopes)
            for each in some
        )
        belongs_to_parent = bool(package) and not full_name.startswith(f".{package}.")
        if is_shadowed or (belongs_to_parent and self._is_local(first)):
            return full_name
        return name

    def _scoped(self, depth: int, name: str) -> str:
        names = [each.name for each in self._scopes[: depth + 1]]
        return "." + ".".join(filter(None, [self._file.package, *names, name]))

    def _is_local(self, first: str) -> bool:
        own = [each.name for each in self._file.message_type]
        own += [each.name for each in self._file.enum_type]
        return first in own or first in self._file.package.split(".")[1:]

    def _extensions(self, fields: Any, nested: Any, path: Path, indent: str) -> Iterator[str]:
        for index, field in enumerate(fields):
            if not indent:
                yield ""
            yield f"{indent}extend {self._name(field.extendee)} {{"
            yield from self._field(field, nested, (*path, index), indent + "  ")
            yield f"{indent}}}"

    # Enums and services

    def _enum(self, enum: pb.EnumDescriptorProto, path: Path, indent: str) -> Iterator[str]:
        yield from self._comment(path, indent)
        yield f"{indent}enum {enum.name} {{"
        for option in _options(enum.options):
            yield f"{indent}  option {option};"
        yield from _reserved(enum, indent + "  ", MAX_ENUM_NUMBER, 0)
        for index, value in enumerate(enum.value):
            yield from self._comment((*path, ENUM_VALUE, index), indent + "  ")
            options = _bracketed(_options(value.options))
            yield f"{indent}  {value.name} = {value.number}{options};"
        yield f"{indent}}}"

    def _service(self, service: pb.ServiceDescriptorProto, path: Path) -> Iterator[str]:
        yield from self._comment(path, "")
        yield f"service {service.name} {{"
        for option in _options(service.options):
            yield f"  option {option};"
        for index, method in enumerate(service.method):
            yield from self._comment((*path, SERVICE_METHOD, index), "  ")
            sent = ("stream " if method.client_streaming else "") + self._name(method.input_type)
            returned = ("stream " if method.server_streaming else "") + self._name(
                method.output_type
            )
            options = [f"    option {option};" for option in _options(method.options)]
            head = f"  rpc {method.name} ({sent}) returns ({returned})"
            if options:
                yield f"{head} {{"
                yield from options
                yield "  }"
            else:
                yield f"{head};"
        yield "}"


def _quoted(value: str | bytes) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    simple = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 92: "\\\\"}
    text = "".join(
        simple.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value
    )
    return f'"{text}"'


def _bracketed(options: Iterable[str]) -> str:
    text = ", ".join(options)
    return f" [{text}]" if text else ""


def _range(start: int, end: int, maximum: int) -> str:
    if start == end:
        return str(start)
    return f"{start} to {'max' if end >= maximum else end}"


def _reserved(target: Any, indent: str, maximum: int, past_end: int) -> Iterator[str]:
    spans = [_range(each.start, each.end - past_end, maximum) for each in target.reserved_range]
    if spans:
        yield f"{indent}reserved {', '.join(spans)};"
    if target.reserved_name:
        yield f"{indent}reserved {', '.join(_quoted(name) for name in target.reserved_name)};"


def _group_names(fields: Iterable[Field]) -> set[str]:
    return {each.type_name.rpartition(".")[2] for each in fields if each.type == Field.TYPE_GROUP}


def _map_entry(field: Field, nested: Iterable[pb.DescriptorProto]) -> pb.DescriptorProto | None:
    name = field.type_name.rpartition(".")[2]
    for each in nested:
        if each.options.map_entry and each.name == name and field.label == Field.LABEL_REPEATED:
            return each
    return None


def default_json_name(name: str) -> str:
    """The JSON name of a field that is given none."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _pseudo_options(field: Field) -> Iterator[str]:
    if field.HasField("default_value"):
        if field.type == Field.TYPE_STRING:
            yield f"default = {_quoted(field.default_value)}"
        elif field.type == Field.TYPE_BYTES:
            yield f'default = "{field.default_value}"'
        else:
            yield f"default = {field.default_value}"
    if field.json_name and field.json_name != default_json_name(field.name):
        yield f"json_name = {_quoted(field.json_name)}"


def _options(options: Any) -> Iterator[str]:
    for known, value in options.ListFields():
        if known.name in ("uninterpreted_option", "map_entry") or known.message_type is not None:
            continue
        for each in value if known.is_repeated else [value]:
            yield f"{known.name} = {_known_value(known, each)}"
    for option in options.uninterpreted_option:
        name = ".".join(
            f"({part.name_part})" if part.is_extension else part.name_part for part in option.name
        )
        yield f"{name} = {_other_value(option)}"


def _known_value(known: Any, value: Any) -> str:
    if known.enum_type is not None:
        return str(known.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str | bytes) else str(value)


def _other_value(option: pb.UninterpretedOption) -> str:
    if option.HasField("string_value"):
        return _quoted(option.string_value)
    if option.HasField("aggregate_value"):
        return f"{{ {option.aggregate_value} }}"
    for name in ("identifier_value", "positive_int_value", "negative_int_value", "double_value"):
        if option.HasField(name):
            return str(getattr(option, name))
    return '""'
