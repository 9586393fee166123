"""The control API of a broker under test: what can be asked, and what is refused."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.testing.control_client import Answer, ask

import ottla
from ottla.model import Endpoint
from ottla.testing import Broker
from ottla.testing.control.routes import ROUTES
from ottla.testing.control.server import MAX_BODY_BYTES, ControlServer

Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(nodes=2, options={"num.partitions": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def url(broker: Broker) -> Iterator[str]:
    with ControlServer(broker, Endpoint("127.0.0.1", 0)) as server:
        yield f"http://{server.endpoint}"


@pytest.fixture
def control(url: str) -> Iterator[Ask]:
    def control(method: str, path: str, body: object = None, raw: bytes | None = None) -> Answer:
        return ask(url, method, path, body, raw)

    yield control
    assert ask(url, "POST", "/reset").status == 200


def send(broker: Broker, topic: str, value: bytes, **options: Any) -> None:
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer:
        producer.send(topic, value).result(20)


def values_of(control: Ask, topic: str) -> list[str]:
    return [each["value"] for each in control("GET", f"/records/{topic}").data["records"]]


def test_a_lost_answer_makes_a_duplicate_only_without_idempotence(
    broker: Broker, control: Ask
) -> None:
    fault = control(
        "POST", "/faults", {"api": "Produce", "topic": "orders", "drop": "after", "times": 1}
    ).data
    send(broker, "orders", b"tea", enable_idempotence=False)
    assert values_of(control, "orders") == ["tea", "tea"]
    found = control("GET", f"/faults/{fault['id']}").data
    assert (found["hits"], found["is_over"]) == (1, True)
    assert control("DELETE", f"/faults/{fault['id']}").data == found
    control("POST", "/faults/script", {"api": "Produce", "outcomes": ["ok", "lost answer"]})
    send(broker, "invoices", b"1")
    send(broker, "invoices", b"2")
    assert values_of(control, "invoices") == ["1", "2"]
    requests = control("GET", "/requests?api=Produce&topic=invoices").data
    assert [each["lost"] is None for each in requests["requests"]] == [True, False, True]
    assert control("GET", f"/requests?since={requests['count']}").data["requests"] == []


def test_faults_are_listed_and_removed(control: Ask) -> None:
    added = [
        control("POST", "/faults", {"api": "Fetch", "delay": "1s", "client_id": "x"}).data,
        control("POST", "/faults/network-partition", {"client_id": ["a", "b"], "node": 2}).data,
        control("POST", "/faults/full-disk").data,
        control("POST", "/faults/slow-disk", {"delay": 0.2}).data,
    ]
    assert [each["kind"] for each in added] == [
        "requests",
        "network partition",
        "full disk",
        "slow disk",
    ]
    assert control("GET", "/faults").data["faults"] == added
    assert control("DELETE", f"/faults/{added[2]['id']}").data == added[2]
    assert control("DELETE", f"/faults/{added[2]['id']}").status == 404
    assert len(control("DELETE", "/faults").data["faults"]) == 3
    assert control("GET", "/faults").data == {"faults": []}


def test_the_clock_ends_a_transaction(broker: Broker, control: Ask) -> None:
    with ottla.Producer(
        bootstrap_servers=broker.bootstrap_servers,
        transactional_id="till",
        transaction_timeout_ms=60_000,
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"never paid").result(20)
        found = control("GET", "/transactions").data["transactions"]["till"]
        assert found["state"] == "Ongoing"
        assert found["partitions"] == [{"topic": "orders", "partition": 0}]
        control("POST", "/clock/advance", {"duration": "2m"})
        broker.wait_for(
            lambda: (
                control("GET", "/transactions").data["transactions"]["till"]["state"]
                == "CompleteAbort"
            )
        )
        assert values_of(control, "orders") == []
        uncommitted = control("GET", "/records/orders?isolation=read_uncommitted").data
        assert len(uncommitted["records"]) == 1
        with pytest.raises(ottla.KafkaError):
            producer.commit_transaction()


def test_the_clock_is_frozen_set_and_reset(control: Ask) -> None:
    assert control("POST", "/clock/freeze").data["is_frozen"]
    control("POST", "/clock/set", {"moment": "2030-01-31T12:00:00+00:00"})
    now = control("POST", "/clock/advance", {"duration": 90}).data
    assert now == {
        "now": "2030-01-31T12:01:30.000+00:00",
        "now_ms": 1896091290000,
        "is_frozen": True,
    }
    assert control("GET", "/clock").data == now
    assert not control("POST", "/clock/resume").data["is_frozen"]
    assert control("POST", "/clock/reset").data["now_ms"] < 1896091290000


def test_groups_and_their_lag(broker: Broker, control: Ask) -> None:
    control("POST", "/topics", {"orders": {"partitions": 2, "records": [{"value": {"n": 1}}] * 3}})
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["orders"])
        read = 0
        while read < 3:
            read += len(consumer.poll(1.0))
        group = control("GET", "/groups").data["groups"]["billing"]
        assert (group["state"], len(group["members"][0]["assignment"])) == ("Stable", 2)
        consumer.commit()
        assert control("POST", "/wait/lag-zero", {"group": "billing"}).data["lag"] == 0
    send(broker, "orders", b"late")
    assert control("GET", "/lag/billing").data["lag"] == 1
    assert [
        each["lag"] for each in control("GET", "/lag/billing?topic=other").data["partitions"]
    ] == []
    late = control("POST", "/wait/lag-zero", {"group": "billing", "timeout": "50ms"})
    assert late.status == 409
    assert "records not committed yet" in late.data["error"]


def test_exactly_once_is_asserted(control: Ask) -> None:
    records = [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]
    control("POST", "/topics", {"in": {"records": records}, "out": {"records": records}})
    wanted = {"source": "in", "sink": "out"}
    assert control("POST", "/assert/exactly-once", wanted).data["records"] == 2
    control("POST", "/topics", {"twice": {"records": [*records, records[0]]}})
    failed = control("POST", "/assert/exactly-once", {**wanted, "sink": "twice", "by": "value"})
    assert failed.status == 409
    assert "1 duplicated: b'1' (2x)" in failed.data["error"]


def test_the_broker_is_killed_restarted_and_paused(broker: Broker, control: Ask) -> None:
    control("POST", "/topics", {"orders": {"records": [{"value": "1"}]}})
    servers = broker.bootstrap_servers
    assert control("POST", "/kill").data == {
        "bootstrap_servers": servers,
        "state": "down",
        "nodes": [],
    }
    assert control("GET", "/records/orders").status == 409
    assert control("POST", "/restart").data["state"] == "running"
    assert values_of(control, "orders") == ["1"]
    assert control("POST", "/pause").data["state"] == "paused"
    assert "paused" in control("GET", "/groups").data["error"]
    assert control("POST", "/unpause").data["state"] == "running"
    assert control("GET", "/").data["bootstrap_servers"] == servers


def test_nodes_are_killed_started_and_made_leaders(control: Ask) -> None:
    control("POST", "/topics", {"orders": {}})
    lead = {"topic": "orders", "partition": 0}
    assert control("POST", "/nodes/2/lead", lead).data["leader"] == 2
    assert control("POST", "/nodes/2/kill").data["nodes"] == [1]
    assert control("POST", "/nodes/2/kill").status == 409
    assert control("POST", "/nodes/2/start").data["nodes"] == [1, 2]
    assert control("POST", "/nodes/two/kill").status == 404


def test_a_reset_is_a_clean_start(broker: Broker, control: Ask) -> None:
    servers = broker.bootstrap_servers
    send(broker, "orders", b"tea")
    control("POST", "/faults", {"drop": "after"})
    control("POST", "/clock/advance", {"duration": "1h"})
    control("POST", "/nodes/1/kill")
    control("POST", "/pause")
    assert control("POST", "/reset").data == {
        "bootstrap_servers": servers,
        "state": "running",
        "nodes": [1, 2],
    }
    assert control("GET", "/faults").data == {"faults": []}
    assert control("GET", "/records/orders").status == 400
    assert control("GET", "/groups").data == {"groups": {}}
    assert control("GET", "/requests").data["requests"] == []
    control("POST", "/kill")
    assert control("POST", "/reset").data["state"] == "running"
    send(broker, "orders", b"coffee")
    assert values_of(control, "orders") == ["coffee"]


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/faults", {"api": "Produse", "drop": "after"}, "did you mean Produce?"),
        ("/faults", {"api": "Produce", "dorp": "after"}, "no field 'dorp': did you mean drop?"),
        ("/faults", {"api": "Produce"}, "a fault needs error="),
        ("/faults", {"drop": "after", "topic": 5}, "topic is 5: it has to be a string"),
        ("/faults", {"drop": "after", "times": True}, "times is true: it has to be a whole number"),
        ("/faults", {"drop": "after", "times": 0}, "times=0 would hit nothing"),
        ("/faults", {"drop": "after", "probability": "often"}, "it has to be a number"),
        ("/faults", {"drop": "after", "node": 9}, "there is no node 9: the nodes are 1, 2"),
        ("/faults/script", {"api": "Produce"}, "outcomes is missing: it has to be a list"),
        ("/faults/script", {"api": "Produce", "outcomes": ["ok", 1]}, "a list of strings"),
        ("/faults/network-partition", {}, "a partition needs client_id= or node="),
        ("/faults/slow-disk", {"delay": "0s"}, "a delay of 0 is no slow disk"),
        ("/clock/advance", {"duration": -1}, "a duration of -1 is negative or endless"),
        ("/clock/advance", {"duration": 1e300}, "ends after the year 9999"),
        ("/clock/advance", {}, "duration is missing"),
        ("/clock/set", {"moment": "yesterday"}, "'yesterday' is no time"),
        ("/clock/set", {"moment": 1e30}, "is no time between 1970 and 9999"),
        ("/clock/freeze", {"now": 1}, "no field 'now': the body has to be empty"),
        ("/topics", {}, "the seed has no topics"),
        ("/topics", {"orders": {"records": "/etc/passwd"}}, "records have to be a list here"),
        ("/topics", {"orders": {"partitions": 0}}, "partitions=0 is no number of partitions"),
        ("/assert/exactly-once", {"source": "a"}, "sink is missing"),
        ("/assert/exactly-once", {"source": "a", "sink": "b"}, "there is no topic 'a'"),
        ("/assert/exactly-once", {"source": "a", "sink": "b", "by": "x"}, "by='x': write one of"),
        ("/topics", [1], "the body has to be an object of JSON"),
    ],
)
def test_what_makes_no_sense_is_refused(
    control: Ask, path: str, body: object, expected: str
) -> None:
    answer = control("POST", path, body)
    assert answer.status == 400
    assert expected in answer.data["error"]


def test_paths_methods_and_parameters_that_are_not_there(control: Ask) -> None:
    assert control("GET", "/fault").status == 404
    assert control("GET", "/clock/freeze/now").status == 404
    wrong = control("PUT", "/faults", {})
    assert (wrong.status, wrong.data) == (405, {"error": "write POST, GET, DELETE here"})
    assert "no parameter 'topics' here" in control("GET", "/requests?topics=x").data["error"]
    assert "since='-1'" in control("GET", "/requests?since=-1").data["error"]
    assert "isolation='none'" in control("GET", "/records/x?isolation=none").data["error"]


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"\xff\xfe",
        b'{"duration": NaN}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"duration": 1, "duration": 2}',
        b'{"duration": ' + b"9" * 100_000 + b"}",
    ],
)
def test_garbage_is_no_json(control: Ask, raw: bytes) -> None:
    answer = control("POST", "/clock/advance", raw=raw)
    assert answer.status == 400
    assert "no JSON" in answer.data["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": str(MAX_BODY_BYTES + 1)}, 413),
        ({"Content-Length": "9" * 5000}, 413),
        ({"Content-Length": "-1"}, 400),
        ({"Transfer-Encoding": "chunked"}, 411),
        ({"Origin": "http://example.com", "Content-Length": "0"}, 403),
    ],
)
def test_bodies_are_bounded_and_browsers_refused(
    url: str, headers: dict[str, str], status: int
) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    try:
        connection.putrequest("POST", "/clock/freeze")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == status
        assert "error" in json.load(answer)
    finally:
        connection.close()


@pytest.mark.parametrize(
    "duration", [10**400, "1" * 1_000_000, "1s" * 1_000_000, "1 " * 100_000, "-1s", 1e300]
)
def test_durations_that_are_too_long_are_refused_at_once(control: Ask, duration: Any) -> None:
    """However many digits: the pattern of durations would take minutes, and nothing else would run meanwhile."""
    answer = control("POST", "/clock/advance", {"duration": duration})
    assert answer.status == 400
    assert len(answer.data["error"]) < 300


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01 not HTTP\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://[/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: attacker.example\r\n\r\n",
    ],
    ids=range(7),
)
def test_what_is_no_request_gets_an_error_in_json(url: str, sent: bytes) -> None:
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(sent)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.split()[1][:1] in (b"4", b"5")
    assert head.split()[1] != b"500"
    assert json.loads(body)["error"]


def test_connections_that_send_slowly_do_not_keep_others_waiting(url: str, control: Ask) -> None:
    host, _, port = url.removeprefix("http://").rpartition(":")
    head = b"POST /clock/freeze HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
    with contextlib.ExitStack() as connections:
        for _ in range(50):
            slow = connections.enter_context(socket.create_connection((host, int(port)), 20))
            slow.sendall(head)
        assert control("GET", "/clock").data["is_frozen"] is False


def test_the_last_node_may_be_killed_and_started(control: Ask) -> None:
    for node in (1, 2):
        answer = control("POST", f"/nodes/{node}/kill")
        assert answer.status == 200
    assert answer.data["nodes"] == []
    assert control("GET", "/records/tea").status == 409
    assert control("POST", "/nodes/1/start").data["nodes"] == [1]


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("127.0.0.1", True),
        ("localhost:1", True),
        ("LOCALHOST", True),
        ("[::1]:80", True),
        ("127.8.9.1", True),
        ("attacker.example", False),
        ("127.0.0.1.attacker.example:80", False),
        ("localhost.attacker.example", False),
        ("192.168.0.7", False),
        ("0.0.0.0", False),
        ("", False),
        ("[", False),
        (None, False),
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(
    broker: Broker, url: str, host: str | None, is_allowed: bool
) -> None:
    def ask_as(url: str) -> int:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
        try:
            connection.putrequest("GET", "/clock", skip_host=True)
            if host is not None:
                connection.putheader("Host", host)
            connection.endheaders()
            answer = connection.getresponse()
            assert ("Host" in json.load(answer).get("error", "")) is (answer.status == 403)
            return answer.status
        finally:
            connection.close()

    assert ask_as(url) == (200 if is_allowed else 403)
    with ControlServer(broker, Endpoint("127.0.0.1", 0), allows_remote=True) as server:
        assert ask_as(str(server.endpoint)) == 200


def test_the_control_address_itself_may_be_named(broker: Broker) -> None:
    try:
        server = ControlServer(broker, Endpoint("localhost", 0))
    except OSError:
        pytest.skip("this machine has no localhost")
    with server:
        assert ask(f"http://localhost:{server.endpoint.port}", "GET", "/clock").status == 200


def test_a_connection_is_for_many_requests(url: str) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    try:
        for path, status in (("/clock", 200), ("/nothing", 404), ("/clock", 200)):
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == status
            answer.read()
    finally:
        connection.close()


def test_routes_are_unambiguous() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
