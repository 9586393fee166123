"""A route of the JSON API: who may use it, what it takes and answers. OpenAPI and checks follow from the table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar

from ottla.console.access.identity import Identity
from ottla.console.access.roles import Role
from ottla.console.access.visit import Visit
from ottla.console.clients import NoClients

if TYPE_CHECKING:
    from ottla.console.access.visible import Visible
    from ottla.console.console import Console

MAX_BODY_BYTES: Final = 8 << 20

Q = TypeVar("Q")
B = TypeVar("B")


@dataclass(frozen=True)
class Call(Generic[Q, B]):
    """A request that was checked: the handler's only argument."""

    console: Console
    identity: Identity
    path: Mapping[str, str]
    """The variable parts of the path, decoded."""
    query: Q
    body: B
    visit: Visit = field(
        default_factory=lambda: Visit("", Identity("", Role.STRANGER, NoClients()))
    )
    """The session and the address behind the identity; for logging in and out."""

    async def visible(self) -> Visible:
        """What the user may see of what the console knows; ApiError before the cluster answered for the first time."""
        return await self.console.visibility.of(self.identity)


@dataclass(frozen=True)
class ServerEvent:
    """An event of a stream; its data is made JSON. Who may not see all that it is about is not told."""

    name: str
    data: object
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()

    @property
    def is_for_everybody(self) -> bool:
        """Whether it names nothing that ACLs are about."""
        return not (self.topics or self.groups or self.transactional_ids)


@dataclass(frozen=True)
class Download:
    """An answer that the browser saves as a file, never shows."""

    file_name: str
    media_type: str
    chunks: AsyncIterator[bytes]


@dataclass(frozen=True)
class Route:
    """A method and a path such as `/api/topics/{topic}`, and the handler.

    The handler's annotation says what it answers: a dataclass, `AsyncIterator[ServerEvent]`, a `Download`, or None.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    handler: Callable[[Call[Any, Any]], Awaitable[Any] | AsyncIterator[ServerEvent]]
    summary: str
    query: type | None = None
    body: type | None = None
    role: Role = Role.VIEWER
    max_body_bytes: int = MAX_BODY_BYTES
    is_preview: Callable[[Call[Any, Any]], bool] | None = None
    """Whether a call only shows what it would do, which a read-only console and every viewer may ask."""
    events: Mapping[str, Any] | None = None
    """The events of a stream by name, with the type of their data."""
