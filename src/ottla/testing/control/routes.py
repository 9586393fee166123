"""What the control API can be asked: one table of methods, paths and the functions that answer."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from ottla.errors import ConfigError
from ottla.testing.broker import Broker
from ottla.testing.control import json_shapes
from ottla.testing.control.json_shapes import Field, JsonObject, check_fields
from ottla.testing.faults import DiskFault, Fault, NetworkPartition


class NoSuchThingError(Exception):
    """There is no such path, or the path names something that is not there."""


class MethodError(Exception):
    """The path is there, and not for this method; the text lists those that it is for."""


@dataclass(frozen=True)
class ControlRequest:
    """A request: what its path names, its query, and the object in its body."""

    named: Mapping[str, str]
    query: Mapping[str, str]
    body: JsonObject


Answer = Callable[["Control", ControlRequest], JsonObject]


@dataclass(frozen=True)
class Route:
    """A method and a path, in which `{name}` stands for any text without a slash."""

    method: str
    path: str
    answer: Answer
    fields: Mapping[str, Field] | None
    query: frozenset[str] = frozenset()
    # Whether it waits until no other such request is being answered.
    is_exclusive: bool = True

    def match(self, path: Sequence[str]) -> dict[str, str] | None:
        """What the segments of a path name, if it is this route's."""
        own = self.path.strip("/").split("/")
        if len(own) != len(path):
            return None
        named = {}
        for pattern, segment in zip(own, path, strict=True):
            if pattern.startswith("{"):
                named[pattern[1:-1]] = segment
            elif pattern != segment:
                return None
        return named


class Control:
    """Answers the requests of the control API about one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._lock = threading.Lock()
        self._fault_count = 0
        self._ids: WeakKeyDictionary[Fault | NetworkPartition | DiskFault, int] = (
            WeakKeyDictionary()
        )

    def answer(
        self, method: str, path: Sequence[str], query: Mapping[str, str], body: JsonObject
    ) -> JsonObject:
        """The answer to a request; its path is given as segments."""
        route, named = _find_route(method, path)
        unknown = sorted(query.keys() - route.query)
        if unknown:
            there_are = ", ".join(sorted(route.query)) or "none"
            raise ConfigError(f"there is no parameter {unknown[0]!r} here: there are {there_are}")
        said = body if route.fields is None else check_fields(body, route.fields)
        request = ControlRequest(named, query, said)
        if not route.is_exclusive:
            return route.answer(self, request)
        with self._lock:
            return route.answer(self, request)

    def number_of(self, fault: Fault | NetworkPartition | DiskFault) -> int:
        """The id of a fault; called by one request at a time."""
        if fault not in self._ids:
            self._fault_count += 1
            self._ids[fault] = self._fault_count
        return self._ids[fault]

    def find_fault(self, text: str) -> Fault | NetworkPartition | DiskFault:
        """The fault with an id."""
        for fault in self.broker.faults:
            if str(self.number_of(fault)) == text:
                return fault
        raise NoSuchThingError(f"there is no fault {text}: GET /faults lists them")

    def describe(self, fault: Fault | NetworkPartition | DiskFault) -> JsonObject:
        return json_shapes.describe_fault(self.number_of(fault), fault)


def _find_route(method: str, path: Sequence[str]) -> tuple[Route, dict[str, str]]:
    others = []
    for route in ROUTES:
        named = route.match(path)
        if named is not None:
            if route.method == method:
                return route, named
            others.append(route.method)
    if others:
        raise MethodError(", ".join(others))
    raise NoSuchThingError(f"there is no /{'/'.join(path)}: GET / lists what there is")


# The broker as a whole.


def _describe_broker(control: Control, _: ControlRequest) -> JsonObject:
    broker = control.broker
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "state": broker.state,
        "nodes": broker.node_ids if broker.state == "running" else [],
    }


def _client_options(control: Control, request: ControlRequest) -> JsonObject:
    client: Any = request.query.get("client", "java")
    if client == "aiokafka":
        raise ConfigError(
            "the options of aiokafka are objects of Python: use those of kafka-python"
        )
    return control.broker.client_options(request.query.get("user"), client=client)


def _overview(control: Control, request: ControlRequest) -> JsonObject:
    routes = [f"{route.method} {route.path}" for route in ROUTES]
    return {**_describe_broker(control, request), "routes": routes}


def _described_after(change: Callable[[Broker], object]) -> Answer:
    def answer(control: Control, request: ControlRequest) -> JsonObject:
        change(control.broker)
        return _describe_broker(control, request)

    return answer


def _node_of(request: ControlRequest) -> int:
    text = request.named["node"]
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise NoSuchThingError(f"{text!r} is no id of a node")
    return int(text)


def _kill_node(control: Control, request: ControlRequest) -> JsonObject:
    control.broker.kill_node(_node_of(request))
    return _describe_broker(control, request)


def _start_node(control: Control, request: ControlRequest) -> JsonObject:
    control.broker.start_node(_node_of(request))
    return _describe_broker(control, request)


def _lead(control: Control, request: ControlRequest) -> JsonObject:
    topic, partition = request.body["topic"], request.body["partition"]
    control.broker.move_leader(topic, partition, _node_of(request))
    return {
        "topic": topic,
        "partition": partition,
        "leader": control.broker.leader_of(topic, partition),
    }


# Faults.


def _add_fault(control: Control, request: ControlRequest) -> JsonObject:
    return control.describe(control.broker.faults.add(**request.body))


def _script(control: Control, request: ControlRequest) -> JsonObject:
    return control.describe(control.broker.faults.script(**request.body))


def _partition_network(control: Control, request: ControlRequest) -> JsonObject:
    return control.describe(control.broker.faults.partition_network(**request.body))


def _fill_disk(control: Control, _: ControlRequest) -> JsonObject:
    return control.describe(control.broker.faults.fill_disk())


def _slow_disk(control: Control, request: ControlRequest) -> JsonObject:
    return control.describe(control.broker.faults.slow_disk(**request.body))


def _list_faults(control: Control, _: ControlRequest) -> JsonObject:
    return {"faults": [control.describe(fault) for fault in control.broker.faults]}


def _clear_faults(control: Control, request: ControlRequest) -> JsonObject:
    removed = _list_faults(control, request)
    control.broker.faults.clear()
    return removed


def _get_fault(control: Control, request: ControlRequest) -> JsonObject:
    return control.describe(control.find_fault(request.named["id"]))


def _remove_fault(control: Control, request: ControlRequest) -> JsonObject:
    fault = control.find_fault(request.named["id"])
    control.broker.faults.remove(fault)
    return control.describe(fault)


# The clock.


def _describe_clock(control: Control, _: ControlRequest) -> JsonObject:
    return json_shapes.describe_clock(control.broker.clock)


def _freeze(control: Control, request: ControlRequest) -> JsonObject:
    control.broker.clock.freeze()
    return _describe_clock(control, request)


def _resume(control: Control, request: ControlRequest) -> JsonObject:
    control.broker.clock.resume()
    return _describe_clock(control, request)


def _reset_clock(control: Control, request: ControlRequest) -> JsonObject:
    control.broker.clock.reset()
    return _describe_clock(control, request)


def _advance(control: Control, request: ControlRequest) -> JsonObject:
    control.broker.clock.advance(request.body["duration"])
    return _describe_clock(control, request)


def _set_clock(control: Control, request: ControlRequest) -> JsonObject:
    control.broker.clock.set(request.body["moment"])
    return _describe_clock(control, request)


# Looking.


def _records(control: Control, request: ControlRequest) -> JsonObject:
    isolation: Any = request.query.get("isolation", "read_committed")
    records = control.broker.records(request.named["topic"], isolation=isolation)
    return {"records": json_shapes.describe_records(records)}


def _groups(control: Control, _: ControlRequest) -> JsonObject:
    groups = control.broker.groups().items()
    return {"groups": {name: json_shapes.describe_group(group) for name, group in groups}}


def _transactions(control: Control, _: ControlRequest) -> JsonObject:
    found = control.broker.transactions().items()
    return {"transactions": {name: json_shapes.describe_transaction(each) for name, each in found}}


def _requests(control: Control, request: ControlRequest) -> JsonObject:
    query = request.query
    since = query.get("since", "0")
    if not re.fullmatch(r"[0-9]{1,18}", since):
        raise ConfigError(f"since={since!r} is no number of a request")
    count = control.broker.log.count
    found = control.broker.requests(query.get("api"), topic=query.get("topic"))
    return {
        "count": count,
        "requests": [
            json_shapes.describe_request(each) for each in found if each.number > int(since)
        ],
    }


def _lag(control: Control, request: ControlRequest) -> JsonObject:
    lag = control.broker.lag(request.named["group"], topic=request.query.get("topic"))
    partitions = [
        {"topic": each.topic, "partition": each.partition, "lag": count}
        for each, count in sorted(lag.items())
    ]
    return {"lag": sum(lag.values()), "partitions": partitions}


def _wait_lag_zero(control: Control, request: ControlRequest) -> JsonObject:
    control.broker.wait_lag_zero(**request.body)
    return _lag(control, ControlRequest({"group": request.body["group"]}, {}, {}))


_COMPARED: Final = {
    "key and value": None,
    "key": lambda record: record.key,
    "value": lambda record: record.value,
}


def _assert_exactly_once(control: Control, request: ControlRequest) -> JsonObject:
    by = request.body.get("by", "key and value")
    if by not in _COMPARED:
        raise ConfigError(f"by={by!r}: write one of {', '.join(map(repr, _COMPARED))}")
    source, sink = request.body["source"], request.body["sink"]
    control.broker.assert_exactly_once(source, sink, by=_COMPARED[by])
    return {"source": source, "sink": sink, "records": len(control.broker.records(sink))}


def _seed(control: Control, request: ControlRequest) -> JsonObject:
    for name, topic in request.body.items():
        # A file would be one of the broker's machine.
        if isinstance(topic, dict) and isinstance(topic.get("records"), str):
            raise ConfigError(f"topic {name}: records have to be a list here")
    control.broker.seed(request.body)
    return {"topics": list(request.body)}


NOTHING: Final[Mapping[str, Field]] = {}

ROUTES: Final = (
    Route("GET", "/", _overview, NOTHING, is_exclusive=False),
    Route("GET", "/client-options", _client_options, NOTHING, frozenset({"user", "client"})),
    Route("POST", "/faults", _add_fault, json_shapes.FAULT),
    Route("POST", "/faults/script", _script, json_shapes.SCRIPT),
    Route("POST", "/faults/network-partition", _partition_network, json_shapes.NETWORK_PARTITION),
    Route("POST", "/faults/full-disk", _fill_disk, NOTHING),
    Route("POST", "/faults/slow-disk", _slow_disk, json_shapes.SLOW_DISK),
    Route("GET", "/faults", _list_faults, NOTHING),
    Route("DELETE", "/faults", _clear_faults, NOTHING),
    Route("GET", "/faults/{id}", _get_fault, NOTHING),
    Route("DELETE", "/faults/{id}", _remove_fault, NOTHING),
    Route("GET", "/clock", _describe_clock, NOTHING, is_exclusive=False),
    Route("POST", "/clock/freeze", _freeze, NOTHING),
    Route("POST", "/clock/resume", _resume, NOTHING),
    Route("POST", "/clock/reset", _reset_clock, NOTHING),
    Route("POST", "/clock/advance", _advance, json_shapes.ADVANCE),
    Route("POST", "/clock/set", _set_clock, json_shapes.SET_CLOCK),
    Route(
        "GET", "/records/{topic}", _records, NOTHING, frozenset({"isolation"}), is_exclusive=False
    ),
    Route("GET", "/groups", _groups, NOTHING, is_exclusive=False),
    Route("GET", "/transactions", _transactions, NOTHING, is_exclusive=False),
    Route(
        "GET",
        "/requests",
        _requests,
        NOTHING,
        frozenset({"api", "topic", "since"}),
        is_exclusive=False,
    ),
    Route("GET", "/lag/{group}", _lag, NOTHING, frozenset({"topic"}), is_exclusive=False),
    Route("POST", "/wait/lag-zero", _wait_lag_zero, json_shapes.LAG_ZERO, is_exclusive=False),
    Route(
        "POST",
        "/assert/exactly-once",
        _assert_exactly_once,
        json_shapes.EXACTLY_ONCE,
        is_exclusive=False,
    ),
    # Its body is a seed: topics by name.
    Route("POST", "/topics", _seed, None),
    Route("POST", "/kill", _described_after(Broker.kill), NOTHING),
    Route("POST", "/restart", _described_after(Broker.restart), NOTHING),
    Route("POST", "/pause", _described_after(Broker.pause), NOTHING),
    Route("POST", "/unpause", _described_after(Broker.unpause), NOTHING),
    Route("POST", "/reset", _described_after(Broker.start_over), NOTHING),
    Route("POST", "/nodes/{node}/kill", _kill_node, NOTHING),
    Route("POST", "/nodes/{node}/start", _start_node, NOTHING),
    Route("POST", "/nodes/{node}/lead", _lead, json_shapes.LEADERSHIP),
)
