"""The embedded broker with the controls that tests want: faults, a clock, and a look at everything."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack
from weakref import WeakSet

from ottla.broker.embedded import Broker as EmbeddedBroker
from ottla.broker.runtime import BrokerSettings, Instruments, RunningBroker, start_broker
from ottla.testing.clock import BrokerClock, MovableClock
from ottla.testing.durations import Duration
from ottla.testing.faults import Faults
from ottla.testing.inspection import Inspection, Isolation, T, wait_for
from ottla.testing.interception import Interception
from ottla.testing.request_log import LoggedRequest, RequestLog
from ottla.testing.seeding import Seed, read_seed, write_seed

if TYPE_CHECKING:
    from ottla.client.admin_model import GroupDescription, TransactionDescription
    from ottla.client.model import ConsumerRecord
    from ottla.config.option_types import BrokerOptions
    from ottla.model import TopicPartition


# Those that there are; the pytest plugin shows what they were asked.
BROKERS: Final[WeakSet[Broker]] = WeakSet()


class Broker(EmbeddedBroker):
    """`ottla.Broker` for tests.

        >>> from ottla.testing import Broker
        >>> import ottla
        >>> with Broker() as broker, ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        ...     fault = broker.faults.add("Produce", topic="orders", drop="after", times=1)
        ...     offset = producer.send("orders", b"one espresso").result(10).offset
        ...     fault.hits, len(broker.records("orders"))
        (1, 1)

    `faults` are what clients meet, `clock` is the broker's time.
    """

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        listen: str = "127.0.0.1:0",
        advertise: str | None = None,
        nodes: int = 1,
        metrics: str | None = None,
        **keywords: Unpack[BrokerOptions],
    ) -> None:
        super().__init__(
            options,
            data_dir=data_dir,
            listen=listen,
            advertise=advertise,
            nodes=nodes,
            metrics=metrics,
            **keywords,
        )
        clock = MovableClock()
        self.faults = Faults(self._settings.node_ids)
        """Errors, delays, lost requests and lost answers for any client."""
        self.clock = BrokerClock(clock, self._move_clock)
        """The time of the broker: `freeze`, `advance`, `set`."""
        self.log = RequestLog()
        """Every request; `requests()` chooses among them."""
        self.is_shared = False  # by the tests of a session or module, which reset it after each
        interception = Interception(self.faults, self.log, clock)
        self._instruments = Instruments(clock, interception.intercept)
        self._inspection = Inspection(lambda: self.bootstrap_servers)
        BROKERS.add(self)

    def _start_broker(self, settings: BrokerSettings) -> Coroutine[Any, Any, RunningBroker]:
        return start_broker(settings, self._instruments)

    def _move_clock(self, move: Callable[[], None]) -> None:
        if self._running is None:
            move()
        else:
            self._run_on_loop(self._running.move_clock(move))

    def reset(self) -> None:
        """Removes all faults, and lets the clock show real time again."""
        self.faults.clear()
        self.clock.reset()

    def seed(self, seed: Seed, *, folder: str | os.PathLike[str] = ".") -> None:
        """Creates topics with records, from a file or a dict as `ottla.testing.seeding` describes."""
        write_seed(self.bootstrap_servers, read_seed(seed, folder))

    def requests(self, api: str | None = None, *, topic: str | None = None) -> list[LoggedRequest]:
        """The newest 10,000 requests, oldest first: of all APIs, or of one; about all topics, or about one."""
        return [
            request
            for request in self.log
            if api in (None, request.api) and (topic is None or request.names(topic))
        ]

    def records(
        self, topic: str, *, isolation: Isolation = "read_committed"
    ) -> list[ConsumerRecord[Any, Any]]:
        """All records of a topic, by partition and offset; keys and values are bytes.

        By default as a read_committed consumer sees them: none of aborted or open transactions.
        """
        return self._inspection.records(topic, isolation=isolation)

    def groups(self) -> dict[str, GroupDescription]:
        """Every group by its id: state, members, and what each member is assigned."""
        return self._inspection.groups()

    def transactions(self) -> dict[str, TransactionDescription]:
        """Every transactional id that a producer has used: state, producer, and the partitions of what is open."""
        return self._inspection.transactions()

    def lag(self, group: str, *, topic: str | None = None) -> dict[TopicPartition, int]:
        """How many committed records a group has not committed yet, by partition; markers do not count."""
        return self._inspection.lag(group, topic=topic)

    def wait_lag_zero(
        self, group: str, *, topic: str | None = None, timeout: Duration = 10.0
    ) -> None:
        """Waits until a group has committed all records of the partitions for which it commits."""
        self._inspection.wait_lag_zero(group, topic=topic, timeout=timeout)

    def wait_for(
        self, predicate: Callable[[], T], *, timeout: Duration = 10.0, what: str = "the predicate"
    ) -> T:
        """Waits until a predicate holds, and returns what it gave; TimeoutError says what was waited for."""
        return wait_for(predicate, timeout=timeout, what=what)

    def assert_exactly_once(
        self,
        source: str,
        sink: str,
        *,
        by: Callable[[ConsumerRecord[Any, Any]], Hashable] | None = None,
        by_sink: Callable[[ConsumerRecord[Any, Any]], Hashable] | None = None,
    ) -> None:
        """Fails unless every committed record of `source` is in `sink` once, and nothing else is.

        Records are compared by key and value, or by what `by` makes of them; `by_sink` is for the sink if it differs.
        """
        self._inspection.assert_exactly_once(source, sink, by=by, by_sink=by_sink)
