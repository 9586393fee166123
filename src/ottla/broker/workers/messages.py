"""What a supervisor and its workers say to each other: JSON objects, some of which carry file descriptors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, get_args

from ottla.model import Endpoint
from ottla.ports import JsonValue


class MalformedMessageError(ValueError):
    """What came is no message."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What every worker knows of another, and of itself: the addresses by the names of listeners."""

    node_id: int
    endpoints: Mapping[str, Endpoint]
    is_live: bool


# -- from the supervisor


@dataclass(frozen=True, slots=True)
class Started:
    """The first message: what the worker serves.

    File descriptors: the lock of the data folder, then a socket for each entry of `listeners`, the names of listeners.
    """

    worker: int
    data_dir: str
    options: Mapping[str, str]
    listeners: Sequence[str]
    log_format: str
    log_level: str


@dataclass(frozen=True, slots=True)
class CatalogCopy:
    """The catalog at a revision; `Changed` has what follows."""

    revision: int
    entries: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Changed:
    """A change of the catalog that is durable and led to this revision."""

    revision: int
    changes: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Committed:
    """The answer to a `Commit`: every live worker has applied it, or was given up waiting for."""

    number: int
    revision: int


@dataclass(frozen=True, slots=True)
class Conflicted:
    """The answer to a `Commit` that was decided by another revision."""

    number: int
    revision: int


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """The answer to a `Commit` that could not be written."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class MembersChanged:
    """All workers; sent at the start and whenever one is live or not live any more."""

    members: Sequence[WorkerState]


@dataclass(frozen=True, slots=True)
class EpochsOf:
    """What a worker said of the epochs of its store."""

    node_id: int
    epochs: JsonValue


@dataclass(frozen=True, slots=True)
class Accepted:
    """A connection from another worker, or from the supervisor (node 0); its socket comes with it."""

    node_id: int
    kind: str


@dataclass(frozen=True, slots=True)
class Connected:
    """The answer to a `Connect`; the socket comes with it."""

    number: int


@dataclass(frozen=True, slots=True)
class NotConnected:
    """The answer to a `Connect` for a worker that is not live."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of the supervisor, such as for metrics."""

    number: int
    kind: str
    question: JsonValue


@dataclass(frozen=True, slots=True)
class Stopped:
    """The worker shall stop cleanly."""


# -- from a worker


@dataclass(frozen=True, slots=True)
class Commit:
    """Changes of the catalog that were decided at a revision."""

    number: int
    changes: Mapping[str, JsonValue]
    expected_revision: int


@dataclass(frozen=True, slots=True)
class Applied:
    """The worker acts by this revision of the catalog, and by all before it."""

    revision: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker serves."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Why the worker cannot serve, in words for the user, and whether an option has to be changed; it ends."""

    reason: str
    is_misconfigured: bool


@dataclass(frozen=True, slots=True)
class Alive:
    """The worker's loop turns."""


@dataclass(frozen=True, slots=True)
class Epochs:
    """The epochs of the worker's store, which the other workers get."""

    epochs: JsonValue


@dataclass(frozen=True, slots=True)
class Connect:
    """The worker wants a connection to another."""

    number: int
    node_id: int
    kind: str


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to an `Asked`."""

    number: int
    answer: JsonValue


Message = (
    Started
    | CatalogCopy
    | Changed
    | Committed
    | Conflicted
    | NotCommitted
    | MembersChanged
    | EpochsOf
    | Accepted
    | Connected
    | NotConnected
    | Asked
    | Stopped
    | Commit
    | Applied
    | Ready
    | Failed
    | Alive
    | Epochs
    | Connect
    | Answered
)
_KINDS: Final[Mapping[str, type[Message]]] = {kind.__name__: kind for kind in get_args(Message)}


def encode_message(message: Message, descriptor_count: int = 0) -> bytes:
    """The message as JSON."""
    # Not by `asdict`, which copies a catalog value by value.
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    if isinstance(message, MembersChanged):
        values["members"] = [asdict(each) for each in message.members]
    return json.dumps(
        [type(message).__name__, descriptor_count, values], separators=(",", ":")
    ).encode("ascii")


def decode_message(data: bytes) -> tuple[Message, int]:
    """The message, and how many file descriptors come with it."""
    try:
        kind, descriptor_count, values = json.loads(data)
        if kind == MembersChanged.__name__:
            values = {"members": [_worker_state(each) for each in values["members"]]}
        return _KINDS[kind](**values), int(descriptor_count)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedMessageError(f"this is no message: {error}") from error


def _worker_state(values: Mapping[str, Any]) -> WorkerState:
    endpoints = {name: Endpoint(*each) for name, each in values["endpoints"].items()}
    return WorkerState(values["node_id"], endpoints, values["is_live"])
