"""Which lists of a request may be divided, so that a large one is answered piece by piece (`request_pieces.py`)."""

from __future__ import annotations

from collections.abc import Hashable
from operator import attrgetter
from typing import Any, NamedTuple


class Repeated(NamedTuple):
    """The treatment of elements with the same values in `fields` (none: of equal elements)."""

    fields: tuple[str, ...] = ()
    most: int = 1  # the number of them that stay

    def key(self, element: Any) -> Hashable:
        if not self.fields:
            key: Hashable = element
            return key
        found: Hashable = attrgetter(*self.fields)(element)
        return found


class Division(NamedTuple):
    """A list of a request that may be divided, and the list of the response that answers it.

    `inner` divides a list in each element. `named` are the fields by which an element of the response is known: the
    response to an element that was divided comes in several, which are joined again. `repeated` says which elements
    name the same thing: in a list with an `inner` one, they become one element; else at most `most` of them stay, side
    by side and in the same piece, because some handlers refuse a repeated element.
    """

    field: str
    answered_in: str
    piece_elements: int = 128
    inner: Division | None = None
    named: tuple[str, ...] = ()
    repeated: Repeated | None = None
    also_joined: tuple[str, ...] = ()  # lists of the response that belong to no element

    def is_large(self, request: Any) -> bool:
        """Whether a request has more elements than are answered in one go."""
        return self._exceeds(request, 2 * self.piece_elements)

    def _exceeds(self, owner: Any, most: int) -> bool:
        elements = getattr(owner, self.field)
        if elements is None:
            return False
        count = len(elements)
        if self.inner is None or count > most:
            return count > most
        inner = self.inner.field
        for element in elements:
            count += len(getattr(element, inner) or ())
        return count > most


class Divisions(NamedTuple):
    """The lists of a request of which, by its version, one is in use."""

    choices: tuple[Division, ...]

    def of(self, request: Any) -> Division | None:
        """The division for a request that is large; None for others."""
        for division in self.choices:
            if division.is_large(request):
                return division
        return None
