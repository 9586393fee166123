"""The pytest plugin: a real broker for the session, for a module or for a test, with faults and a clock.

    def test_my_program(ottla_broker, ottla_topic):
        run(bootstrap_servers=ottla_broker.bootstrap_servers, topic=ottla_topic)

Brokers are `ottla.testing.Broker`. After every test their faults are removed and their clocks show real time again. If
a test fails, its report has the requests that brokers got during the test. Under pytest-xdist every worker has brokers
of its own.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from ottla.broker.security.embedded_security import Security
    from ottla.testing.broker import Broker
    from ottla.testing.seeding import Seed

_NAME_CHARACTERS: Final = 100
_BROKER_FIXTURES: Final = frozenset(
    {"ottla_broker", "ottla_secured_broker", "ottla_module_broker", "ottla_test_broker"}
)
_MARKER: Final = "ottla_broker"
_MARKER_FIELDS: Final = frozenset({"nodes", "options", "seed", "as_version", "security"})
_MARKER_HELP: Final = (
    "ottla_broker(nodes=1, options={}, seed=None, as_version=None, security=None): what ottla_test_broker is made "
    "with, or ottla_module_broker if it is the mark of a module"
)
# How many requests each broker had got when a test began.
_MARKS: Final = pytest.StashKey[dict["Broker", int]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER_HELP)


# Brokers.


@pytest.fixture(scope="session")
def ottla_broker_options() -> dict[str, object]:
    """Options of all brokers of the plugin, by Kafka's names; override it in your conftest.py.

    Unless they contain `log.retention.ms`, `minutes` or `hours`, the broker keeps records whatever their timestamps
    are: with Kafka's default, records of a test with dates of last year would be deleted five minutes after the
    start. Options of a topic still apply.
    """
    return {}


@pytest.fixture(scope="session")
def ottla_broker(ottla_broker_options: dict[str, object]) -> Iterator[Broker]:
    """A broker that runs as long as the test session, on a free port, with its data in a temporary folder."""
    with _running(ottla_broker_options) as broker:
        yield broker


@pytest.fixture(scope="session")
def ottla_secured_broker(ottla_broker_options: dict[str, object]) -> Iterator[Broker]:
    """As `ottla_broker`, but clients have to log in, and may do only what ACLs allow.

    def test_orders(ottla_secured_broker):
        producer = ottla.Producer(ottla_secured_broker.client_options("till"))

    `client_options()` are those of the super user. It is a broker with security="scram"; the marker `ottla_broker`
    takes others for `ottla_test_broker`.
    """
    with _running(ottla_broker_options, security="scram") as broker:
        yield broker


@pytest.fixture(scope="module")
def ottla_module_broker(
    request: pytest.FixtureRequest, ottla_broker_options: dict[str, object]
) -> Iterator[Broker]:
    """A broker for the tests of a module; `pytestmark = pytest.mark.ottla_broker(...)` says what it is like."""
    with _marked(request, ottla_broker_options) as broker:
        yield broker


@pytest.fixture
def ottla_test_broker(
    request: pytest.FixtureRequest, ottla_broker_options: dict[str, object]
) -> Iterator[Broker]:
    """A broker for one test, which starts in a few milliseconds.

    @pytest.mark.ottla_broker(nodes=3, options={"num.partitions": 6}, seed="orders.yaml")
    def test_failover(ottla_test_broker): ...
    """
    with _marked(request, ottla_broker_options) as broker:
        yield broker


@contextmanager
def _running(
    options: Mapping[str, object],
    nodes: int = 1,
    as_version: str | None = None,
    security: str | Security | None = None,
) -> Iterator[Broker]:
    from ottla.testing.broker import Broker, with_endless_retention

    chosen = with_endless_retention(options)
    with Broker(chosen, nodes=nodes, as_version=as_version, security=security) as broker:
        broker.is_shared = True
        yield broker


@contextmanager
def _marked(request: pytest.FixtureRequest, base: Mapping[str, object]) -> Iterator[Broker]:
    """A broker as the nearest marker of a test or module says."""
    said = _read_marker(request.node.get_closest_marker(_MARKER))
    options = {**base, **(said.get("options") or {})}
    with _running(
        options, said.get("nodes", 1), said.get("as_version"), said.get("security")
    ) as broker:
        seed: Seed | None = said.get("seed")
        if seed is not None:
            broker.seed(seed, folder=request.path.parent)
        yield broker


def _read_marker(marker: pytest.Mark | None) -> Mapping[str, Any]:
    said: Mapping[str, Any] = {} if marker is None else marker.kwargs
    unknown = sorted(said.keys() - _MARKER_FIELDS)
    if unknown or (marker is not None and marker.args):
        wrong = f"has no {unknown[0]}=" if unknown else "takes its arguments by name"
        known = ", ".join(f"{each}=" for each in sorted(_MARKER_FIELDS))
        pytest.fail(f"the marker ottla_broker {wrong}: there are {known}", pytrace=False)
    return said


@pytest.fixture
def ottla_seed(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Creates topics with records from files beside the test, or from dicts: `ottla_seed("orders.yaml")`.

    The broker is `ottla_broker`, or the one that is given as `broker=`. `ottla.testing.seeding` describes the files.
    """

    def seed(seed: Seed, broker: Broker | None = None) -> None:
        chosen: Broker = request.getfixturevalue("ottla_broker") if broker is None else broker
        chosen.seed(seed, folder=request.path.parent)

    return seed


@pytest.fixture
def ottla_topic_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Makes topic names that are new each time and begin with the name of the test."""
    test = re.sub(r"[^a-zA-Z0-9-]+", "-", request.node.name).strip("-")[:_NAME_CHARACTERS]
    return lambda: f"{test}-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def ottla_topic(ottla_topic_name: Callable[[], str]) -> str:
    """A new topic name; the topic is created on first use."""
    return ottla_topic_name()


# What happens around every test.


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_MARKS] = {broker: broker.log.count for broker in _brokers()}
    for broker in _brokers():
        if broker.is_shared:
            broker.begin_test()
    names = getattr(item, "fixturenames", ())
    if any(mark.name == _MARKER for mark in item.own_markers) and "ottla_test_broker" not in names:
        pytest.fail(
            "the marker ottla_broker of a test is for the fixture ottla_test_broker, which it does not use",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, Any, Any]:
    try:
        return (yield)
    finally:
        for broker in _brokers():
            if broker.is_shared:
                broker.end_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        marks = item.stash.get(_MARKS, {})
        uses_shared = not _BROKER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
        for broker in _brokers():
            if uses_shared or not broker.is_shared:
                _add_requests(report, broker, marks.get(broker, 0))
    return report


def _add_requests(report: pytest.TestReport, broker: Broker, mark: int) -> None:
    from ottla.testing.request_log import SHOWN_REQUESTS, format_requests

    requests = broker.log.since(mark)
    if requests:
        report.sections.append(
            (f"requests to {broker!r}", format_requests(requests, SHOWN_REQUESTS))
        )


def _brokers() -> list[Broker]:
    """The brokers for tests of this process; none if no test has used one, and their code is not loaded then."""
    module = sys.modules.get("ottla.testing.broker")
    return [] if module is None else list(module.BROKERS)
