"""Tests of `unittest` with a broker."""

from __future__ import annotations

import inspect
import sys
import unittest
from pathlib import Path
from typing import Any, ClassVar

from ottla.broker.security.embedded_security import Security
from ottla.testing.broker import Broker, with_endless_retention
from ottla.testing.request_log import SHOWN_REQUESTS, format_requests
from ottla.testing.seeding import Seed


class BrokerTestCase(unittest.TestCase):
    """A test case whose tests share a broker; faults and clock are as new for each of them.

        class OrdersTest(BrokerTestCase):
            broker_options = {"num.partitions": 3}

            def test_orders(self):
                run(self.broker.bootstrap_servers)

    The requests of a test that failed are written to stderr.
    """

    broker_options: ClassVar[dict[str, object]] = {}
    """Options of the broker by Kafka's names."""
    broker_nodes: ClassVar[int] = 1
    """How many nodes the broker has."""
    broker_seed: ClassVar[Seed | None] = None
    """Topics and records with which the class begins: a dict, or a file beside the module of the class."""
    broker_as_version: ClassVar[str | None] = None
    """The release of Kafka that it serves as."""
    broker_security: ClassVar[str | Security | None] = None
    """How clients connect: `scram` and others, as for `ottla.Broker`."""
    broker: ClassVar[Broker]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.broker = Broker(
            with_endless_retention(cls.broker_options),
            nodes=cls.broker_nodes,
            as_version=cls.broker_as_version,
            security=cls.broker_security,
        )
        cls.broker.start()
        cls.addClassCleanup(cls.broker.stop)
        if cls.broker_seed is not None:
            cls.broker.seed(cls.broker_seed, folder=Path(inspect.getfile(cls)).parent)

    def run(self, result: Any = None) -> Any:
        if not hasattr(self, "broker"):
            return super().run(result)  # the class is skipped, and setUpClass with it
        failed_before = _failures(result)
        self.broker.begin_test()
        try:
            return super().run(result)
        finally:
            if _failures(result) > failed_before:
                print(f"requests of {self.id()}:", file=sys.stderr)
                print(format_requests(self.broker.requests(), SHOWN_REQUESTS), file=sys.stderr)
            self.broker.end_test()


def _failures(result: Any) -> int:
    return len(getattr(result, "failures", ())) + len(getattr(result, "errors", ()))
