"""The differences between two Protobuf schemas because of which messages cannot be read, by Confluent's rules.

Stricter than Confluent where a message would not be read: a number that becomes or ceases to be repeated, a field that
becomes required, whatever their labels were before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2 as pb

from ottla.schemas.compatibility.parsed_schema import Budget, Incompatibility

Field = pb.FieldDescriptorProto
Problems = Iterator[Incompatibility]

_SCALAR_KINDS: Final = {
    Field.TYPE_INT32: "number",
    Field.TYPE_INT64: "number",
    Field.TYPE_UINT32: "number",
    Field.TYPE_UINT64: "number",
    Field.TYPE_BOOL: "number",
    Field.TYPE_ENUM: "number",
    Field.TYPE_SINT32: "signed",
    Field.TYPE_SINT64: "signed",
    Field.TYPE_STRING: "text",
    Field.TYPE_BYTES: "text",
    Field.TYPE_FIXED32: "fixed32",
    Field.TYPE_SFIXED32: "fixed32",
    Field.TYPE_FIXED64: "fixed64",
    Field.TYPE_SFIXED64: "fixed64",
    Field.TYPE_FLOAT: "float",
    Field.TYPE_DOUBLE: "double",
}
_TEXTS: Final = {
    "PACKAGE_CHANGED": (
        "The package at '{path}' in the {reader} schema does not match the package in the {writer} schema"
    ),
    "MESSAGE_REMOVED": (
        "The {reader} schema is missing a MESSAGE type at path '{path}' in the {writer} schema"
    ),
    "FIELD_KIND_CHANGED": (
        "The type of a field at path '{path}' in the {reader} schema does not match the {writer} schema"
    ),
    "FIELD_SCALAR_KIND_CHANGED": (
        "The kind of a SCALAR field at path '{path}' in the {reader} schema does not match its kind "
        "in the {writer} schema"
    ),
    "FIELD_NAMED_TYPE_CHANGED": (
        "The type of a MESSAGE field at path '{path}' in the {reader} schema does not match its type "
        "in the {writer} schema"
    ),
    "FIELD_NUMERIC_LABEL_CHANGED": (
        "The label for a NUMERIC field at path '{path}' in the {reader} schema does not match its label "
        "in the {writer} schema"
    ),
    "REQUIRED_FIELD_ADDED": (
        "A required field  at path '{path}' in the {reader} schema is missing in the {writer} schema"
    ),
    "REQUIRED_FIELD_REMOVED": (
        "The {reader} schema is missing a required field at path: '{path}' in the {writer} schema"
    ),
    "ONEOF_FIELD_REMOVED": (
        "The {reader} schema is missing a oneof field at path '{path}' in the {writer} schema"
    ),
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": (
        "Multiple fields in the oneof at path '{path}' in the {reader} schema are outside a oneof "
        "in the {writer} schema"
    ),
    "FIELD_MOVED_TO_EXISTING_ONEOF": (
        "A field in the oneof at path '{path}' in the {reader} schema is outside an existing oneof "
        "in the {writer} schema"
    ),
}


class _Type(NamedTuple):
    """A message type, and the package that its name begins with."""

    message: pb.DescriptorProto
    package: str


class ProtoComparison:
    """Compares two files; types of the files that they import are compared where they are used."""

    def __init__(
        self,
        old_files: Iterable[pb.FileDescriptorProto],
        new_files: Iterable[pb.FileDescriptorProto],
        budget: Budget,
    ) -> None:
        self._old = _types(old_files)
        self._new = _types(new_files)
        self._budget = budget
        # Pairs of types that are compared already, or are just now: recursive ones are as good as the rest.
        self._outcomes: dict[tuple[str, str], bool] = {}

    def files(self, old: pb.FileDescriptorProto, new: pb.FileDescriptorProto) -> Problems:
        """All differences that matter."""
        if old.package != new.package:
            yield _problem("PACKAGE_CHANGED", "#/")
        yield from self._declared(old.message_type, new.message_type, "#/")

    def _declared(self, old: Any, new: Any, path: str) -> Problems:
        after = {each.name: each for each in new if not each.options.map_entry}
        for message in old:
            if message.options.map_entry:
                continue
            place = f"{path}{message.name}"
            if message.name in after:
                yield from self._message(message, after[message.name], place)
            else:
                yield _problem("MESSAGE_REMOVED", place)

    def _message(self, old: pb.DescriptorProto, new: pb.DescriptorProto, path: str) -> Problems:
        self._budget.spend()
        before, after = _Fields(old), _Fields(new)
        yield from _oneof_problems(before, after, path)
        for number in sorted(before.by_number | after.by_number):
            self._budget.spend()
            yield from self._numbered(number, before, after, path)
        yield from self._declared(old.nested_type, new.nested_type, f"{path}.")

    def _numbered(self, number: int, before: _Fields, after: _Fields, path: str) -> Problems:
        old, new = before.by_number.get(number), after.by_number.get(number)
        oneof = after.oneof_of.get(number)
        place = f"{path}/{number}" if oneof is None else f"{path}/{oneof}/{number}"
        if new is None:
            assert old is not None
            source = before.oneof_of.get(number)
            if source is not None:
                if source not in before.gone_in(after):
                    yield _problem("ONEOF_FIELD_REMOVED", f"{path}/{source}/{number}")
            elif old.label == Field.LABEL_REQUIRED:
                yield _problem("REQUIRED_FIELD_REMOVED", place)
        elif old is None:
            if new.label == Field.LABEL_REQUIRED:
                yield _problem("REQUIRED_FIELD_ADDED", place)
        else:
            yield from self._field(old, new, place)

    def _field(self, old: Field, new: Field, path: str) -> Problems:
        if new.label == Field.LABEL_REQUIRED and old.label != Field.LABEL_REQUIRED:
            yield _problem("REQUIRED_FIELD_ADDED", path)
        old_entry, new_entry = self._entry(self._old, old), self._entry(self._new, new)
        if old_entry is not None and new_entry is not None:
            for part, other in zip(old_entry.field, new_entry.field, strict=True):
                yield from self._value(part, other, path)
        elif old_entry is not None or new_entry is not None:
            yield _problem("FIELD_KIND_CHANGED", path)
        else:
            yield from self._value(old, new, path)

    def _entry(self, types: Mapping[str, _Type], field: Field) -> pb.DescriptorProto | None:
        found = types.get(field.type_name)
        if found is None or not found.message.options.map_entry:
            return None
        return found.message

    def _value(self, old: Field, new: Field, path: str) -> Problems:
        before, after = _SCALAR_KINDS.get(old.type), _SCALAR_KINDS.get(new.type)
        if (before is None) != (after is None):
            yield _problem("FIELD_KIND_CHANGED", path)
        elif before is None:
            if old.type != new.type:
                # A group and a message differ in how they are written.
                yield _problem("FIELD_KIND_CHANGED", path)
            else:
                yield from self._named_type(old.type_name, new.type_name, path)
        elif before != after:
            yield _problem("FIELD_SCALAR_KIND_CHANGED", path)
        elif before != "text" and _is_repeated(old) != _is_repeated(new):
            yield _problem("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _named_type(self, old_name: str, new_name: str, path: str) -> Problems:
        old, new = self._old[old_name], self._new[new_name]
        if _local_name(old_name, old.package) != _local_name(
            new_name, new.package
        ) or not self._is_readable(old_name, new_name):
            yield _problem("FIELD_NAMED_TYPE_CHANGED", path)

    def _is_readable(self, old_name: str, new_name: str) -> bool:
        pair = (old_name, new_name)
        if pair not in self._outcomes:
            self._outcomes[pair] = True
            old, new = self._old[old_name].message, self._new[new_name].message
            self._outcomes[pair] = next(self._message(old, new, old_name), None) is None
        return self._outcomes[pair]


class _Fields:
    """The fields of a message by number, and the oneofs that they belong to."""

    def __init__(self, message: pb.DescriptorProto) -> None:
        self.by_number = {field.number: field for field in message.field}
        self.oneof_of = {
            field.number: message.oneof_decl[field.oneof_index].name
            for field in message.field
            # The oneof of an optional field of proto3 is a matter of descriptors only.
            if field.HasField("oneof_index") and not field.proto3_optional
        }
        self.oneofs: dict[str, list[int]] = {}
        for number, name in self.oneof_of.items():
            self.oneofs.setdefault(name, []).append(number)

    def gone_in(self, other: _Fields) -> set[str]:
        """The oneofs of which nothing is left in the other message: their removal loses no choice."""
        return {
            name
            for name, numbers in self.oneofs.items()
            if name not in other.oneofs and not any(number in other.by_number for number in numbers)
        }


def _oneof_problems(before: _Fields, after: _Fields, path: str) -> Problems:
    """Fields that could be set together, and cannot any more."""
    for name, numbers in sorted(after.oneofs.items()):
        existing = [number for number in numbers if number in before.by_number]
        alone = [number for number in existing if number not in before.oneof_of]
        sources = {before.oneof_of[number] for number in existing if number in before.oneof_of}
        if len(alone) + len(sources) > 1:
            several = len(alone) > 1
            error = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if several else "FIELD_MOVED_TO_EXISTING_ONEOF"
            yield _problem(error, f"{path}/{name}")


def _is_repeated(field: Field) -> bool:
    return field.label == Field.LABEL_REPEATED


def _types(files: Iterable[pb.FileDescriptorProto]) -> dict[str, _Type]:
    found: dict[str, _Type] = {}

    def add(messages: Any, prefix: str, package: str) -> None:
        for message in messages:
            name = f"{prefix}.{message.name}"
            found[name] = _Type(message, package)
            add(message.nested_type, name, package)

    for file in files:
        add(file.message_type, f".{file.package}" if file.package else "", file.package)
    return found


def _local_name(name: str, package: str) -> str:
    return name.removeprefix(f".{package}.") if package else name.removeprefix(".")


def _problem(error_type: str, path: str) -> Incompatibility:
    return Incompatibility(error_type, _TEXTS[error_type].replace("{path}", path))
