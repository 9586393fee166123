"""Responses with an injected error, in the shape that each API gives its errors."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.errors import ErrorCode
from ottla.testing.subjects import SUBJECTS, Concerns, Listed, Named, TopicName, name_of, whole_of
from ottla.wire.declare import Field, fields_of
from ottla.wire.types import ZERO_UUID, Fixed, RecordsType, StringType, UuidType

# Fields that an element of a response has from the element of the request that it answers, besides its key.
_COPIED: Final = ("topic_id", "resource_type")
_ERROR_FIELDS: Final = ("error_code", "partition_error_code")
_ERRORS_IN_ELEMENTS: Final = ("AlterClientQuotas", "AlterReplicaLogDirs", "DescribeLogDirs")


class Refusal(NamedTuple):
    """A request taken apart: what the handler is still to do, None if nothing, and the response for the rest."""

    accepted: Any | None
    response: Any


class _Parts(NamedTuple):
    accepted: list[Any]
    refused: list[Any]


@dataclass(frozen=True)
class ErrorInjection:
    """An error for what a fault concerns, in requests and responses of one version of an API."""

    api: str
    version: int
    error: ErrorCode
    concerns: Concerns
    topic_name: TopicName

    def refuse(self, request: Any, response_class: type) -> Refusal:
        """Refuses the elements of a request that the fault concerns; a request without elements as a whole."""
        accepted, response = copy.copy(request), _blank(response_class, self.version)
        is_divided = is_left = False
        for listed in SUBJECTS[self.api]:
            if getattr(request, listed.asked):
                parts = self._divide(request, listed, response_class, whole_of(request))
                setattr(accepted, listed.asked, parts.accepted)
                setattr(response, listed.answered, parts.refused)
                is_divided = True
                is_left = is_left or bool(parts.accepted)
        if not is_divided:
            self._refuse_whole(response)
        return Refusal(accepted if is_left else None, response)

    def _divide(self, owner: Any, listed: Listed, response_class: type, outer: Named) -> _Parts:
        parts = _Parts([], [])
        element_class = _element_class(response_class, listed.answered)
        for element in getattr(owner, listed.asked):
            named = name_of(element, listed, outer, self.topic_name)
            lists = [inner for inner in listed.inner if getattr(element, inner.asked)]
            if self.concerns(named) and self._has_error(element_class):
                # As a coordinator refuses a group: once, and not for each of its partitions.
                parts.refused.append(self._refused(element, listed, element_class))
            elif lists:
                self._divide_element(element, listed, lists, element_class, named, parts)
            elif self.concerns(named):
                parts.refused.append(self._refused(element, listed, element_class))
            else:
                parts.accepted.append(element)
        return parts

    def _refused(self, element: Any, listed: Listed, element_class: type) -> Any:
        refused = self._answer_of(element, listed, element_class)
        self._set_error(refused)
        return refused

    def _divide_element(
        self,
        element: Any,
        listed: Listed,
        lists: list[Listed],
        element_class: type,
        named: Named,
        parts: _Parts,
    ) -> None:
        accepted, refused = (
            copy.copy(element),
            self._answer_of(element, listed, element_class),
        )
        divided = {inner: self._divide(element, inner, element_class, named) for inner in lists}
        for inner, inner_parts in divided.items():
            setattr(accepted, inner.asked, inner_parts.accepted)
            setattr(refused, inner.answered, inner_parts.refused)
        if any(inner_parts.accepted for inner_parts in divided.values()):
            parts.accepted.append(accepted)
        if any(inner_parts.refused for inner_parts in divided.values()):
            parts.refused.append(refused)

    def _answer_of(self, element: Any, listed: Listed, element_class: type) -> Any:
        """The element of a response that answers an element of a request; it has no error yet."""
        answer = _blank(element_class, self.version)
        asked, answered = listed.key
        setattr(answer, answered, getattr(element, asked) if asked else element)
        for name in _COPIED:
            if hasattr(answer, name) and hasattr(element, name):
                setattr(answer, name, getattr(element, name))
        return answer

    def has_place(self, request: Any, response_class: type) -> bool:
        """Whether a response to a request has a place for the error: a list that is empty has none."""
        if any(getattr(request, listed.asked) for listed in SUBJECTS[self.api]):
            return True
        return self._refuse_whole(_blank(response_class, self.version))

    def _refuse_whole(self, response: Any) -> bool:
        """Sets the error of a whole response; False if it has no place for one."""
        if self._set_error(response):
            return True
        is_set = False
        # These have no error of their own, DescribeLogDirs before version 3: only their elements have.
        for field in fields_of(response.__class__):
            if self.api in _ERRORS_IN_ELEMENTS and isinstance(field.type.element, type):
                element = _blank(field.type.element, self.version)
                if self._refuse_whole(element):
                    setattr(response, field.name, [element])
                    is_set = True
        return is_set

    def _has_error(self, message_class: type) -> bool:
        return any(
            field.name in _ERROR_FIELDS and field.present_in(self.version)
            for field in fields_of(message_class)
        )

    def _set_error(self, message: Any) -> bool:
        """Sets the error of a message, if it has a field for that in this version."""
        is_set = False
        for field in fields_of(message.__class__):
            if not field.present_in(self.version):
                continue
            if field.name in _ERROR_FIELDS:
                setattr(message, field.name, int(self.error))
                is_set = True
            elif field.name == "error_message":
                setattr(message, field.name, self.error.text)
        return is_set

    def overwrite(self, response: Any) -> int:
        """Puts the error in the place of what the fault concerns in a response; says in how many places.

        For what only reads: a fetch session, for one, names few of its partitions in its requests.
        """
        return sum(
            self._overwrite(response, listed, Named())
            for listed in SUBJECTS[self.api]
            if getattr(response, listed.answered)
        )

    def _overwrite(self, owner: Any, listed: Listed, outer: Named) -> int:
        elements: list[Any] = getattr(owner, listed.answered)
        found = Listed(listed.answered, listed.answered, listed.kind, (listed.key[1],) * 2)
        count = 0
        for place, element in enumerate(elements):
            named = name_of(element, found, outer, self.topic_name)
            if listed.inner:
                count += sum(self._overwrite(element, inner, named) for inner in listed.inner)
            elif self.concerns(named):
                elements[place] = self._answer_of(element, found, element.__class__)
                self._set_error(elements[place])
                count += 1
        return count


def merge(api: str, response: Any, refused: Any) -> Any:
    """Adds refused elements to the response that the handler gave to the others."""
    for listed in SUBJECTS[api]:
        _merge_lists(response, refused, listed)
    return response


def _merge_lists(response: Any, refused: Any, listed: Listed) -> None:
    known: list[Any] = getattr(response, listed.answered)
    for element in getattr(refused, listed.answered):
        same = next((each for each in known if _same(each, element, listed)), None)
        if same is None or not listed.inner:
            known.append(element)
        else:
            for inner in listed.inner:
                _merge_lists(same, element, inner)


def _same(one: Any, other: Any, listed: Listed) -> bool:
    key = listed.key[1]
    ids = (getattr(each, "topic_id", ZERO_UUID) for each in (one, other))
    return getattr(one, key) == getattr(other, key) and len(set(ids)) == 1


def _element_class(owner: type, field_name: str) -> type:
    element = next(field.type.element for field in fields_of(owner) if field.name == field_name)
    assert isinstance(element, type), f"{owner.__name__}.{field_name} lists no structs"
    return element


def _blank(cls: type, version: int) -> Any:
    """A message in which every field is as empty as its type allows in a version."""
    return cls(**{field.name: _empty(field, version) for field in fields_of(cls)})


def _empty(field: Field, version: int) -> Any:
    kind = field.type
    if isinstance(kind.element, RecordsType):
        return b""  # librdkafka takes null for a broken response
    if kind.is_nullable and version >= field.presence.nullable_since:
        return None
    if kind.is_list:
        return []
    if field.default is not None:
        return field.default()
    match kind.element:
        case Fixed():
            is_unknown = field.name.endswith(("offset", "_id", "epoch", "port", "watermark"))
            return -1 if is_unknown else kind.element.zero
        case UuidType():
            return ZERO_UUID
        case StringType():
            return ""
        case type():
            return _blank(kind.element, version)
        case _:
            return b""
