"""What answers say about rights."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

from tests.broker.security.coordination_rows import DENIALS, NONE

from ottla.errors import ErrorCode
from ottla.wire.declare import fields_of


def denials_in(answer: Any) -> list[ErrorCode]:
    """The errors of an answer's parts in order, or the one for the whole; what is not about rights counts as none."""
    own, parts = NONE, []
    kind: Any = type(answer)
    for field in fields_of(kind):
        value = getattr(answer, field.name)
        element = field.type.element
        if field.name.endswith("error_code"):
            own = ErrorCode(value) if value in DENIALS else own
        elif field.type.is_list and isinstance(element, type) and is_dataclass(element):
            parts += [error for each in value or () for error in denials_in(each)]
    return parts if parts and own is NONE else [own, *parts]
