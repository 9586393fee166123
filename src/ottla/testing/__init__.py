"""What tests of Kafka programs need: a real broker with faults and a clock in the test's hands, and a pytest plugin."""

from __future__ import annotations

from ottla.testing.broker import Broker
from ottla.testing.clock import BrokerClock
from ottla.testing.faults import Fault, Faults
from ottla.testing.inspection import wait_for
from ottla.testing.request_log import LoggedRequest

__all__ = ["Broker", "BrokerClock", "Fault", "Faults", "LoggedRequest", "wait_for"]
