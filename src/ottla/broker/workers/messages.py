"""What a supervisor, its workers and the program that embeds it say to each other.

Messages are JSON, and some of them carry file descriptors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, get_args

from ottla.broker.embedded_doors import EmbeddedDoors
from ottla.errors import ConfigError, OttlaError
from ottla.model import Endpoint
from ottla.ports import JsonValue, StorageError
from ottla.ports.errors import InUseError, NewerFormatError

# The most special ones first.
_ERRORS: Final[Sequence[type[OttlaError]]] = (
    ConfigError,
    InUseError,
    NewerFormatError,
    StorageError,
)


# The kind of the connections over which workers tell their pages: metrics, internals and events.
PAGES: Final = "PAGES"


class MalformedMessageError(ValueError):
    """What came is no message."""


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What every worker knows of another, and of itself.

    Its addresses are by the names of listeners, as are those that clients get instead, where they are advertised.
    """

    node_id: int
    endpoints: Mapping[str, Endpoint]
    advertised: Mapping[str, Endpoint]
    is_live: bool


# -- from the program that embeds a broker to its supervisor


@dataclass(frozen=True, slots=True)
class Supervise:
    """The first message: what to serve; the options have Kafka's names, and `users` are passwords by name."""

    options: Mapping[str, str]
    data_dir: str
    worker_count: int
    users: Mapping[str, str]
    log_level: str
    doors: EmbeddedDoors


# -- from that supervisor


@dataclass(frozen=True, slots=True)
class Serving:
    """Every worker serves; where the common listeners are, and the metrics and the console, by their names."""

    common: Mapping[str, Endpoint]
    doors: Mapping[str, Endpoint]


# -- from the supervisor to a worker


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
    tells_pages: bool = False
    has_metrics_page: bool = False


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
    """A question of the supervisor, such as for metrics, or of the program that embeds it."""

    number: int
    kind: str
    question: JsonValue


@dataclass(frozen=True, slots=True)
class Stopped:
    """The process shall stop cleanly."""


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
class AboutToServe:
    """The worker will have clients soon: every commit after this waits until it acts by it."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker serves."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Why the process cannot serve: the name of an error, and its words for the user; the process ends."""

    kind: str
    reason: str

    @classmethod
    def of(cls, error: Exception) -> Failed:
        """What to say of an error."""
        kinds = [each.__name__ for each in _ERRORS if isinstance(error, each)]
        return cls(kinds[0] if kinds else OttlaError.__name__, str(error))

    def error(self) -> OttlaError:
        """The error, for the caller in this process."""
        kinds = {each.__name__: each for each in _ERRORS}
        return kinds.get(self.kind, OttlaError)(self.reason)


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
    Supervise
    | Serving
    | Started
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
    | AboutToServe
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
    elif isinstance(message, Supervise):
        values["doors"] = asdict(message.doors)
    return json.dumps(
        [type(message).__name__, descriptor_count, values], separators=(",", ":")
    ).encode("ascii")


def decode_message(data: bytes) -> tuple[Message, int]:
    """The message, and how many file descriptors come with it."""
    try:
        kind, descriptor_count, values = json.loads(data)
        if kind == MembersChanged.__name__:
            values = {"members": [_worker_state(each) for each in values["members"]]}
        elif kind == Serving.__name__:
            values = {name: _endpoints(values[name]) for name in ("common", "doors")}
        elif kind == Supervise.__name__:
            values = {**values, "doors": EmbeddedDoors(**values["doors"])}
        return _KINDS[kind](**values), int(descriptor_count)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise MalformedMessageError(f"this is no message: {error}") from error


def _worker_state(values: Mapping[str, Any]) -> WorkerState:
    return WorkerState(
        node_id=values["node_id"],
        endpoints=_endpoints(values["endpoints"]),
        advertised=_endpoints(values["advertised"]),
        is_live=values["is_live"],
    )


def _endpoints(values: Mapping[str, Any]) -> dict[str, Endpoint]:
    return {name: Endpoint(*each) for name, each in values.items()}
