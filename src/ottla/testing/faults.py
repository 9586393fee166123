"""Faults that a test puts between clients and a broker: errors, delays, lost requests and lost answers.

    broker.faults.add("Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=2)
    broker.faults.add("Produce", drop="after", times=1)        # written, but the client never learns of it
    broker.faults.add("Heartbeat", group="billing", delay="5s")

They work on the broker's side of real connections: every client in every language meets them.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal, Self

from ottla.durations import Duration, seconds_of
from ottla.errors import ConfigError, ErrorCode
from ottla.testing.subjects import SUBJECTS, Concerns, Kind, Named, kinds_named_by

Drop = Literal["before", "after"]
# Characters of a wrong name that an error repeats.
MAX_SHOWN: Final = 100
ANY: Final = "*"
# Of the clients with which the kit itself looks at a broker and seeds it: they meet no faults, and are not logged.
OWN_CLIENT_ID: Final = "ottla-testing"
# Partitions are numbers of 32 bits.
LAST_PARTITION: Final = (1 << 31) - 1
# What a fault concerns that is for everything.
EVERYTHING: Final = Named()


def check_api(api: object) -> None:
    """Refuses an API that the broker does not serve."""
    if not isinstance(api, str) or api not in SUBJECTS:
        by_lower_case = {each.lower(): each for each in SUBJECTS}
        nearest = get_close_matches(str(api).lower()[:MAX_SHOWN], by_lower_case, 1)
        hint = f": did you mean {by_lower_case[nearest[0]]}?" if nearest else ""
        raise ConfigError(f"the broker serves no API {repr(api)[:MAX_SHOWN]}{hint}")


@dataclass(frozen=True)
class Outcome:
    """What becomes of a request: by default it is handled as usual."""

    error: ErrorCode | None = None
    drop: Drop | None = None
    delay_seconds: float = 0.0

    def __str__(self) -> str:
        parts = []
        if self.error is not None:
            parts.append(self.error.name)
        if self.drop is not None:
            parts.append("lost request" if self.drop == "before" else "lost answer")
        if self.delay_seconds:
            parts.append(f"answered {self.delay_seconds:g} s late")
        return ", ".join(parts) or "ok"


@dataclass(frozen=True)
class IncomingRequest:
    """A request as faults see it."""

    api: str
    client_id: str | None
    node_id: int
    named: Iterable[Named]
    # Whether the response to it has a place for an error; an empty list of topics, for one, has none.
    has_place_for: Callable[[ErrorCode, Concerns], bool] = lambda _error, _concerns: True
    # Sent by a node of the broker itself: the markers of transactions, and whether a partition belongs to one.
    is_from_node: bool = False


@dataclass(frozen=True)
class Target:
    """The requests that a fault is for: those that name everything that is given here."""

    api: str = ANY
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    client_id: str | None = None
    node: int | None = None

    def concerns(self, named: Named) -> bool:
        """Whether it is about a thing that a request names."""
        return (
            self.topic in (None, named.topic)
            and self.partition in (None, named.partition)
            and self.group in (None, named.group)
            and self.transactional_id in (None, named.transactional_id)
        )

    def matches(self, request: IncomingRequest) -> bool:
        if self.api == ANY and request.is_from_node and self.client_id is None:
            return False
        return (
            self.api in (ANY, request.api)
            and self.client_id in (None, request.client_id)
            and self.node in (None, request.node_id)
            and (self.concerns(EVERYTHING) or any(map(self.concerns, request.named)))
        )

    def validate(self) -> None:
        """Refuses what no request can match."""
        if self.api != ANY:
            check_api(self.api)
        for name in ("topic", "group", "transactional_id", "client_id"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise ConfigError(f"{name}={value!r} can never match: it is no text")
            if value is not None and not _is_utf_8(value):
                raise ConfigError(f"{name}={value!r} can never match: it is no text of UTF-8")
            if value == "" and name != "client_id":
                raise ConfigError(f"{name}='' can never match: leave it out to match all")
        if self.client_id == OWN_CLIENT_ID:
            raise ConfigError(f"client_id={OWN_CLIENT_ID!r} can never match: it is the kit's own")
        if self.partition is not None and (
            type(self.partition) is not int or not 0 <= self.partition <= LAST_PARTITION
        ):
            raise ConfigError(f"partition={self.partition!r} is no number of a partition")
        if self.partition is not None and self.topic is None:
            raise ConfigError("partition= needs topic=: partitions have numbers within a topic")
        if self.api == ANY:
            return
        kinds = kinds_named_by(self.api)
        for kind in (Kind.TOPIC, Kind.PARTITION, Kind.GROUP, Kind.TRANSACTION):
            if getattr(self, kind.value) is not None and kind not in kinds:
                raise ConfigError(
                    f"{kind.value}= can never match: a request of {self.api} names no {kind.value}"
                )

    def __str__(self) -> str:
        about = {
            name: value for name, value in vars(self).items() if name != "api" and value is not None
        }
        return ", ".join([self.api, *(f"{name}={value}" for name, value in about.items())])


@dataclass(eq=False)
class Fault:
    """A fault that was added. `remove()`, or the end of a `with` block around it, ends it."""

    target: Target
    outcomes: Sequence[Outcome]
    # How many requests it hits; None for all. A script hits each of its outcomes' requests once.
    times: int | None
    skip: int = 0
    probability: float = 1.0
    hits: int = 0
    # Until it is removed. Answers that it holds back are then given.
    lasts: bool = field(default=True, repr=False)
    _random: random.Random = field(default_factory=lambda: random.Random(0), repr=False)
    _faults: Faults | None = field(default=None, repr=False)
    _seen: int = field(default=0, repr=False)

    def take(self, request: IncomingRequest) -> Outcome | None:
        """What becomes of a request that it matches; None if it lets this one pass."""
        outcome = self.outcomes[self.hits % len(self.outcomes)]
        if outcome.error is not None and not request.has_place_for(
            outcome.error, self.target.concerns
        ):
            return None
        self._seen += 1
        if self._seen <= self.skip or self.is_over:
            return None
        if self.probability < 1.0 and self._random.random() >= self.probability:
            return None
        self.hits += 1
        return outcome

    @property
    def is_over(self) -> bool:
        """Whether it has hit as many requests as it was for."""
        return self.times is not None and self.hits >= self.times

    def remove(self) -> None:
        """Ends it; nothing happens if it has ended."""
        if self._faults is not None:
            self._faults.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __str__(self) -> str:
        return (
            f"{self.target}: {' | '.join(map(str, self.outcomes))}; {self.hits} request(s) so far"
        )


@dataclass(eq=False)
class NetworkPartition:
    """Clients or nodes that cannot be reached. `heal()`, or the end of a `with` block around it, ends it."""

    client_ids: frozenset[str]
    nodes: frozenset[int]
    _faults: Faults = field(repr=False)
    lasts: bool = True

    def separates(self, client_id: str | None, node_id: int) -> bool:
        """Whether a client and a node do not reach each other."""
        if self.client_ids and client_id not in self.client_ids:
            return False
        return not self.nodes or node_id in self.nodes

    def separates_nodes(self, one: int, other: int) -> bool:
        """Whether two nodes do not reach each other: one of them is cut off from all, or from all nodes."""
        return not self.client_ids and (one in self.nodes) != (other in self.nodes)

    def heal(self) -> None:
        """Ends it; nothing happens if it has ended."""
        self._faults.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()


@dataclass(eq=False)
class DiskFault:
    """A full or slow disk. `remove()`, or the end of a `with` block around it, ends it."""

    is_full: bool
    delay_seconds: float
    _faults: Faults = field(repr=False)
    lasts: bool = field(default=True, repr=False)

    def remove(self) -> None:
        """Ends it; nothing happens if it has ended."""
        self._faults.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class Faults:
    """The faults of a broker. They can be added and removed at any time, from any thread."""

    def __init__(self, node_ids: Sequence[int], missing_apis: frozenset[str] = frozenset()) -> None:
        self._node_ids = node_ids
        # Those that the broker does not serve as the release of Kafka that it was made to be.
        self._missing_apis = missing_apis
        self._faults: tuple[Fault, ...] = ()
        self._partitions: tuple[NetworkPartition, ...] = ()
        self._disk_faults: tuple[DiskFault, ...] = ()
        self._lock = threading.Lock()
        # While the broker stops in order to start again: held answers are given, and the faults stay.
        self.lets_go = False

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __iter__(self) -> Iterator[Fault | NetworkPartition | DiskFault]:
        return iter((*self._faults, *self._partitions, *self._disk_faults))

    def add(
        self,
        api: str = ANY,
        *,
        error: str | int | None = None,
        drop: Drop | None = None,
        delay: Duration | None = None,
        times: int | None = None,
        skip: int = 0,
        probability: float = 1.0,
        seed: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        client_id: str | None = None,
        node: int | None = None,
    ) -> Fault:
        """Adds a fault for the requests of an API, or of all, that name what is given. The first that matches counts.

        `error` is an error of Kafka's by name or number: the broker does nothing and answers with it. `drop="before"`
        loses the request; `drop="after"` loses the answer, when the broker has done what was asked. Both cut the
        connection, which is how clients learn of it. `delay` holds the answer back.

        It hits `times` requests, or all, after it has let `skip` of them pass; with a `probability` below 1 only
        some, the same ones for the same `seed`.
        """
        if error is None and drop is None and delay is None:
            raise ConfigError("a fault needs error=, drop= or delay=")
        if drop == "before" and (error is not None or delay is not None):
            raise ConfigError('error= and delay= need an answer, which drop="before" does not give')
        if drop not in (None, "before", "after"):
            raise ConfigError(f'drop={drop!r}: write "before" or "after"')
        if delay is not None and not seconds_of(delay):
            raise ConfigError("a delay of 0 delays nothing: leave it out")
        if drop == "after" and error is not None:
            raise ConfigError(
                'error= does nothing and drop="after" loses the answer to what was done: write drop="before"'
            )
        if seed is not None and type(seed) is not int:
            raise ConfigError(f"seed={seed!r} is no whole number")
        if seed is not None and probability == 1:
            raise ConfigError("seed= needs a probability= below 1: it chooses among requests")
        outcome = Outcome(
            None if error is None else error_named(error),
            drop,
            0.0 if delay is None else seconds_of(delay),
        )
        target = Target(api, topic, partition, group, transactional_id, client_id, node)
        return self._add(
            Fault(target, [outcome], times, skip, probability, _random=random.Random(seed or 0))
        )

    def script(
        self,
        api: str,
        outcomes: Sequence[str],
        *,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        client_id: str | None = None,
        node: int | None = None,
    ) -> Fault:
        """Says what becomes of the next requests, one after the other.

            faults.script("Produce", ["ok", "lost answer", "NOT_LEADER_OR_FOLLOWER", "200ms"], topic="orders")

        An outcome is "ok", "lost request", "lost answer", the name of an error, or a duration by which the answer is
        late. After the last one requests are handled as usual.
        """
        if isinstance(outcomes, str) or not _is_sequence(outcomes) or not outcomes:
            raise ConfigError('a script is a list of outcomes, such as ["ok", "lost answer"]')
        target = Target(api, topic, partition, group, transactional_id, client_id, node)
        return self._add(Fault(target, [_outcome(each) for each in outcomes], len(outcomes)))

    def partition_network(
        self,
        *,
        client_id: str | Sequence[str] | None = None,
        node: int | Sequence[int] | None = None,
    ) -> NetworkPartition:
        """Cuts clients off from the broker, or from some nodes; or nodes from all clients and all other nodes.

            with broker.faults.partition_network(client_id="billing"):
                ...  # the broker hears nothing of it, and its connections stay open

        Requests are not handled, and get no answer; clients notice by their own timeouts. When it heals, connections
        on which requests were lost are cut. Leaders stay where they are: `move_leader` and `kill_node` do what a
        controller of Kafka would.
        """
        client_ids: list[str] = _one_or_more("client_id", client_id)
        nodes: list[int] = _one_or_more("node", node)
        if not client_ids and not nodes:
            raise ConfigError("a partition needs client_id= or node=; pause() stops all answers")
        for client in client_ids:
            Target(client_id=client).validate()
        for each in nodes:
            self._check_node(each)
        if not client_ids and set(nodes) == set(self._node_ids) and len(nodes) > 1:
            raise ConfigError("all nodes are on the same side: pause() stops all answers")
        partition = NetworkPartition(frozenset(client_ids), frozenset(nodes), self)
        with self._lock:
            self._partitions = (*self._partitions, partition)
        return partition

    def fill_disk(self) -> DiskFault:
        """Lets the disk be full: records and changes of topics are refused, as with a real full disk."""
        return self._add_disk_fault(DiskFault(True, 0.0, self))

    def slow_disk(self, delay: Duration) -> DiskFault:
        """Lets every write become durable only after a delay, by the broker's clock."""
        seconds = seconds_of(delay)
        if not seconds:
            raise ConfigError("a delay of 0 is no slow disk")
        return self._add_disk_fault(DiskFault(False, seconds, self))

    def _add_disk_fault(self, fault: DiskFault) -> DiskFault:
        with self._lock:
            self._disk_faults = (*self._disk_faults, fault)
        return fault

    @property
    def is_disk_full(self) -> bool:
        return bool(self._disk_faults) and any(fault.is_full for fault in self._disk_faults)

    @property
    def slow_disks(self) -> tuple[DiskFault, ...]:
        if not self._disk_faults:
            return ()
        return tuple(fault for fault in self._disk_faults if not fault.is_full)

    @property
    def meets_requests(self) -> bool:
        """Whether there is a fault that a request may meet."""
        return bool(self._faults or self._partitions)

    def partition_between(self, client_id: str | None, node_id: int) -> NetworkPartition | None:
        """What keeps a client from reaching a node."""
        return next((each for each in self._partitions if each.separates(client_id, node_id)), None)

    def are_nodes_separate(self, one: int, other: int) -> bool:
        """Whether two nodes do not reach each other."""
        return any(each.separates_nodes(one, other) for each in self._partitions)

    def _check_node(self, node: object) -> None:
        if type(node) is not int or node not in self._node_ids:
            known = ", ".join(map(str, self._node_ids))
            raise ConfigError(f"there is no node {node!r}: the nodes are {known}")

    def _add(self, fault: Fault) -> Fault:
        fault.target.validate()
        if fault.target.api in self._missing_apis:
            raise ConfigError(
                f"{fault.target.api} can never match: it is newer than the broker's as_version"
            )
        if fault.target.node is not None:
            self._check_node(fault.target.node)
        if fault.times is not None and (type(fault.times) is not int or fault.times < 1):
            raise ConfigError(f"times={fault.times!r} would hit nothing: give a number from 1 on")
        if type(fault.skip) is not int or fault.skip < 0:
            raise ConfigError(f"skip={fault.skip!r} is no number of requests")
        if type(fault.probability) not in (int, float) or not 0 < fault.probability <= 1:
            raise ConfigError(f"probability={fault.probability!r} is not above 0 and at most 1")
        fault._faults = self
        with self._lock:
            self._faults = (*self._faults, fault)
        return fault

    def remove(self, fault: Fault | NetworkPartition | DiskFault) -> None:
        """Ends a fault, and gives the answers that it holds back; nothing happens if it has ended."""
        if not isinstance(fault, Fault | NetworkPartition | DiskFault):
            raise ConfigError(f"{fault!r} is no fault: give what add() returned")
        if fault._faults is not self:
            raise ConfigError("the fault is one of another broker")
        with self._lock:
            self._faults = tuple(each for each in self._faults if each is not fault)
            self._partitions = tuple(each for each in self._partitions if each is not fault)
            self._disk_faults = tuple(each for each in self._disk_faults if each is not fault)
            fault.lasts = False

    def holds_back(self, fault: Fault | NetworkPartition | DiskFault) -> bool:
        """Whether what a fault holds back has to wait on."""
        return fault.lasts and not self.lets_go

    def clear(self) -> None:
        """Ends all faults."""
        for fault in tuple(self):
            self.remove(fault)

    def match(self, request: IncomingRequest) -> tuple[Fault, Outcome] | None:
        """The fault that a request meets, and what becomes of it."""
        for fault in self._faults:
            if fault.target.matches(request):
                outcome = fault.take(request)
                if outcome is not None:
                    return fault, outcome
        return None


def _is_utf_8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _is_sequence(given: object) -> bool:
    return isinstance(given, Sequence)


def _one_or_more(name: str, given: object) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, str | int):
        return [given]
    if not isinstance(given, Collection):
        raise ConfigError(f"{name}={given!r}: give one or a list")
    return list(given)


_OUTCOMES: Final = {
    "ok": Outcome(),
    "lost request": Outcome(drop="before"),
    "lost answer": Outcome(drop="after"),
}


def _outcome(text: str) -> Outcome:
    if not isinstance(text, str):
        raise ConfigError(f'{text!r} is no outcome: write text, such as "lost answer"')
    if text in _OUTCOMES:
        return _OUTCOMES[text]
    if text[:1].isdigit() or text.startswith("-"):
        return Outcome(delay_seconds=seconds_of(text))
    if text.islower() and "_" not in text:
        known = ", ".join(map(repr, _OUTCOMES))
        raise ConfigError(
            f"{repr(text)[:MAX_SHOWN]} is no outcome: write {known}, the name of an error or a duration"
        )
    return Outcome(error=error_named(text))


def error_named(error: str | int) -> ErrorCode:
    """An error of Kafka's by its name or number."""
    if isinstance(error, int) and not isinstance(error, bool):
        found = next((code for code in ErrorCode if code == error), None)
    else:
        found = next((code for code in ErrorCode if code.name == error), None)
    if found is None:
        nearest = get_close_matches(
            str(error).upper()[:MAX_SHOWN], [code.name for code in ErrorCode], 1
        )
        hint = f": did you mean {nearest[0]}?" if nearest else ""
        raise ConfigError(f"Kafka has no error {repr(error)[:MAX_SHOWN]}{hint}")
    if found is ErrorCode.NONE:
        raise ConfigError("NONE is no error")
    return found
