"""What tests of Kafka programs need: a real broker with faults and a clock in the test's hands, and a pytest plugin.

    from ottla.testing import Broker

    with Broker() as broker:
        broker.faults.add("Produce", drop="after", times=1)
        broker.clock.advance("10m")

Names are imported on first use: a test run that uses no broker does not load one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.testing.broker import Broker
    from ottla.testing.clock import BrokerClock
    from ottla.testing.faults import Fault, Faults
    from ottla.testing.inspection import wait_for, wait_for_async
    from ottla.testing.request_log import LoggedRequest
    from ottla.testing.served_broker import ServedBroker
    from ottla.testing.unittest_case import BrokerTestCase

_HOMES = {
    "Broker": "broker",
    "BrokerClock": "clock",
    "BrokerTestCase": "unittest_case",
    "Fault": "faults",
    "Faults": "faults",
    "LoggedRequest": "request_log",
    "ServedBroker": "served_broker",
    "wait_for": "inspection",
    "wait_for_async": "inspection",
}

__all__ = [
    "Broker",
    "BrokerClock",
    "BrokerTestCase",
    "Fault",
    "Faults",
    "LoggedRequest",
    "ServedBroker",
    "wait_for",
    "wait_for_async",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'ottla.testing' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"ottla.testing.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__doc__"]
