"""What a test wants to know of a broker: its records, groups and transactions, and whether they are as they should be.

Everything is read over Kafka's protocol, as any client would: what a test sees is what a program would have seen.
"""

from __future__ import annotations

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Never, TypeVar, overload

from ottla.durations import Duration, seconds_of
from ottla.errors import ConfigError
from ottla.model import TopicPartition
from ottla.testing.faults import OWN_CLIENT_ID
from ottla.testing.seeding import Seed, read_seed, write_seed

if TYPE_CHECKING:
    from ottla.client.admin_model.groups import GroupDescription
    from ottla.client.admin_model.transactions import TransactionDescription
    from ottla.client.blocking.admin import Admin
    from ottla.client.blocking.consumer import Consumer
    from ottla.client.model import ConsumerRecord

T = TypeVar("T")
Isolation = Literal["read_committed", "read_uncommitted"]

POLL_SECONDS = 0.01
READ_SECONDS = 30.0
SHOWN_RECORDS = 5
# By which a predicate says that it does not hold yet: a group that has not joined is not in groups(), for one.
NOT_YET: Final = (AssertionError, LookupError)


class Inspection(ABC):
    """What brokers for tests have in common: a test can look into them, and fill them."""

    @abstractmethod
    def _answering_servers(self) -> str:
        """Where the broker answers now; IllegalStateError if it does not."""

    def _own_options(self) -> dict[str, Any]:
        """How the clients connect that look into the broker."""
        return {"bootstrap.servers": self._answering_servers()}

    def seed(self, seed: Seed, *, folder: str | os.PathLike[str] = ".") -> None:
        """Creates topics with records, from a file or a dict as `ottla.testing.seeding` describes."""
        write_seed(self._own_options(), read_seed(seed, folder))

    def records(
        self, topic: str, *, isolation: Isolation = "read_committed"
    ) -> list[ConsumerRecord[Any, Any]]:
        """All records of a topic, by partition and offset; keys and values are bytes.

        By default as a read_committed consumer sees them: none of aborted or open transactions.
        """
        found = self._records_if_there(topic, isolation)
        if found is None:
            raise ConfigError(f"there is no topic '{topic}'")
        return found

    def wait_records(
        self,
        topic: str,
        count: int,
        *,
        timeout: Duration = 10.0,
        isolation: Isolation = "read_committed",
    ) -> list[ConsumerRecord[Any, Any]]:
        """Waits until a topic has so many records or more, and returns all of them; the topic need not exist before."""
        if type(count) is not int or count < 1:
            raise ConfigError(f"count={count!r}: write how many records to wait for, at least 1")
        found: list[ConsumerRecord[Any, Any]] | None = None

        def is_done() -> bool:
            nonlocal found
            found = self._records_if_there(topic, isolation)
            return found is not None and len(found) >= count

        def so_far() -> str:
            return "there is no such topic" if found is None else f"it has {len(found)}"

        what = f"{count} record(s) in topic {topic}"
        wait_for(is_done, timeout=timeout, what=what, found=so_far)
        return found or []

    def _records_if_there(
        self, topic: str, isolation: Isolation
    ) -> list[ConsumerRecord[Any, Any]] | None:
        """The records of a topic; None if there is no such topic."""
        with self._consumer(isolation) as consumer:
            found = consumer.list_topics().get(topic)
            if found is None:
                return None
            partitions = [TopicPartition(topic, each.partition) for each in found]
            starts = consumer.beginning_offsets(partitions)
            return _read(consumer, {each: (starts[each], None) for each in partitions})

    def groups(self) -> dict[str, GroupDescription]:
        """Every group by its id: state, members, and what each member is assigned."""
        with self._admin() as admin:
            return admin.describe_groups(admin.list_groups())

    def transactions(self) -> dict[str, TransactionDescription]:
        """Every transactional id that a producer has used: state, producer, and the partitions of what is open."""
        with self._admin() as admin:
            return admin.describe_transactions(admin.list_transactions())

    def lag(self, group: str, *, topic: str | None = None) -> dict[TopicPartition, int]:
        """How many committed records a group has not committed yet, by partition; markers do not count.

        They are the partitions of all topics that the group reads. One for which it has committed nothing counts from
        its first record. Of a group that never had members, only partitions with commits are known.
        """
        with self._admin() as admin:
            found = admin.list_consumer_group_offsets([group])[group]
            listed = [each for each in admin.list_groups() if each == group]
            described = admin.describe_groups(listed).get(group)
        committed = {
            partition: each.offset for partition, each in found.items() if each is not None
        }
        with self._consumer("read_committed") as consumer:
            without = _partitions_without_commit(consumer, committed, described)
            begins = {**committed, **consumer.beginning_offsets(without)}
            spans = {each: (at, None) for each, at in begins.items() if topic in (None, each.topic)}
            behind = Counter(
                TopicPartition(record.topic, record.partition) for record in _read(consumer, spans)
            )
        return {partition: behind[partition] for partition in sorted(spans)}

    def wait_lag_zero(
        self, group: str, *, topic: str | None = None, timeout: Duration = 10.0
    ) -> None:
        """Waits until a group has committed all records of the topics that it reads, and has committed at all."""
        lag: dict[TopicPartition, int] = {}

        def is_done() -> bool:
            nonlocal lag
            lag = self.lag(group, topic=topic) if self._has_committed(group, topic) else {}
            return bool(lag) and not any(lag.values())

        def found() -> str:
            behind = {str(each): count for each, count in lag.items() if count}
            return f"records not committed yet: {behind}" if lag else "it has committed nothing"

        wait_for(is_done, timeout=timeout, what=f"group {group} to have no lag", found=found)

    def _has_committed(self, group: str, topic: str | None) -> bool:
        with self._admin() as admin:
            found = admin.list_consumer_group_offsets([group])[group]
        return any(
            each is not None and topic in (None, partition.topic)
            for partition, each in found.items()
        )

    def wait_members(
        self, group: str, count: int, *, timeout: Duration = 10.0
    ) -> GroupDescription | None:
        """Waits until a group has so many members, all of which know their partitions, and describes it.

        With 0 it waits until all members have left; a group that never had any is None then.
        """
        if type(count) is not int or count < 0:
            raise ConfigError(f"count={count!r}: write how many members to wait for")
        found: GroupDescription | None = None

        def is_done() -> bool:
            nonlocal found
            found = self.groups().get(group)
            if found is None or not found.members:
                return count == 0
            return len(found.members) == count and found.state == "Stable"

        def so_far() -> str:
            if found is None:
                return "there is no such group"
            return f"it has {len(found.members)} and is {found.state}"

        what = f"{count} member(s) of group {group}"
        wait_for(is_done, timeout=timeout, what=what, found=so_far)
        return found

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
        by = by or (lambda record: (record.key, record.value))
        wanted = Counter(map(by, self.records(source)))
        found = Counter(map(by_sink or by, self.records(sink)))
        trouble = {
            "lost": wanted - found,
            "duplicated": Counter({each: n for each, n in found.items() if n > wanted[each] > 0}),
            "not from the source": Counter(
                {each: n for each, n in found.items() if not wanted[each]}
            ),
        }
        lines = [
            f"{len(records)} {what}: {_some(records)}"
            for what, records in trouble.items()
            if records
        ]
        if lines:
            counted = f"{wanted.total()} record(s) in {source}, {found.total()} in {sink}"
            raise AssertionError("; ".join([f"not exactly once: {counted}", *lines]))

    def wait_for(
        self, predicate: Callable[[], T], *, timeout: Duration = 10.0, what: str = "the predicate"
    ) -> T:
        """Waits until a predicate holds, and returns what it gave; TimeoutError says what was waited for."""
        return wait_for(predicate, timeout=timeout, what=what)

    def _consumer(self, isolation: Isolation) -> Consumer:
        from ottla.client.blocking.consumer import Consumer

        if isolation not in ("read_committed", "read_uncommitted"):
            raise ConfigError(f"isolation={isolation!r}: write read_committed or read_uncommitted")
        return Consumer(
            self._own_options(),
            isolation_level=isolation,
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            client_id=OWN_CLIENT_ID,
        )

    def _admin(self) -> Admin:
        from ottla.client.blocking.admin import Admin

        return Admin(self._own_options(), client_id=OWN_CLIENT_ID)


def _read(
    consumer: Consumer, spans: Mapping[TopicPartition, tuple[int, int | None]]
) -> list[ConsumerRecord[Any, Any]]:
    """The records of partitions from an offset up to another, or to their end, in order."""
    ends = consumer.end_offsets(spans)
    wanted = {each: (ends[each] if end is None else end) for each, (_, end) in spans.items()}
    unread = {each for each, (start, _) in spans.items() if start < wanted[each]}
    consumer.assign(sorted(unread))
    for partition in unread:
        consumer.seek(partition, spans[partition][0])
    found: list[ConsumerRecord[Any, Any]] = []
    deadline = time.monotonic() + READ_SECONDS
    while unread:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{sorted(map(str, unread))} could not be read to the end")
        found += consumer.poll(0.1)
        unread = {each for each in unread if consumer.position(each) < wanted[each]}
    found.sort(key=lambda record: (record.topic, record.partition, record.offset))
    return found


def _partitions_without_commit(
    consumer: Consumer, committed: Collection[TopicPartition], group: GroupDescription | None
) -> list[TopicPartition]:
    """The partitions that a group reads, or will read, and for which it has committed nothing."""
    if group is None or group.is_simple_consumer_group:
        return []
    assigned = {each for member in group.members for each in member.assignment}
    read = {each.topic for each in assigned.union(committed)}
    topics = consumer.list_topics()
    found = (TopicPartition(name, each.partition) for name in read for each in topics.get(name, ()))
    return sorted(each for each in found if each not in committed)


def _some(records: Mapping[Hashable, int]) -> str:
    shown = [f"{each!r} ({count}x)" for each, count in list(records.items())[:SHOWN_RECORDS]]
    return ", ".join(shown) + (" ..." if len(records) > SHOWN_RECORDS else "")


def wait_for(
    predicate: Callable[[], T],
    *,
    timeout: Duration = 10.0,
    what: str = "the predicate to hold",
    found: Callable[[], object] | None = None,
) -> T:
    """Waits until a predicate holds, and returns what it gave; TimeoutError says what was waited for.

    An AssertionError or LookupError of the predicate means that it does not hold yet, and is shown in the end.
    """
    deadline = _Deadline(timeout, what, found)
    while True:
        failure: Exception | None = None
        try:
            result = predicate()
            if isinstance(result, Awaitable):
                _refuse_awaitable(result)
            if result:
                return result
        except NOT_YET as error:
            failure = error
        deadline.check(failure)
        time.sleep(POLL_SECONDS)


@overload
async def wait_for_async(
    predicate: Callable[[], Awaitable[T]], *, timeout: Duration = ..., what: str = ...
) -> T: ...


@overload
async def wait_for_async(
    predicate: Callable[[], T], *, timeout: Duration = ..., what: str = ...
) -> T: ...


async def wait_for_async(
    predicate: Callable[[], Any],
    *,
    timeout: Duration = 10.0,
    what: str = "the predicate to hold",
) -> Any:
    """`wait_for` in asyncio: the tasks of the test go on meanwhile, and the predicate may be a coroutine function."""
    deadline = _Deadline(timeout, what)
    while True:
        failure: Exception | None = None
        try:
            async with asyncio.timeout(max(deadline.seconds_left(), POLL_SECONDS)) as limit:
                answer = predicate()
                result = await answer if isinstance(answer, Awaitable) else answer
            if result:
                return result
        except NOT_YET as error:
            failure = error
        except TimeoutError:
            if not limit.expired():
                raise  # of the predicate itself
        deadline.check(failure)
        await asyncio.sleep(POLL_SECONDS)


def _refuse_awaitable(given: Awaitable[object]) -> Never:
    """An awaitable is always true: a wait for it would have waited for nothing."""
    if isinstance(given, Coroutine):
        given.close()
    raise ConfigError("the predicate is asynchronous: write await wait_for_async(predicate)")


class _Deadline:
    """The end of a wait, and what is said then."""

    def __init__(
        self, timeout: Duration, what: str, found: Callable[[], object] | None = None
    ) -> None:
        self._timeout, self._what, self._found = timeout, what, found
        self._end = time.monotonic() + seconds_of(timeout)

    def seconds_left(self) -> float:
        return self._end - time.monotonic()

    def check(self, failure: Exception | None) -> None:
        """Raises TimeoutError if it is over; `failure` is why the predicate did not hold."""
        if self.seconds_left() > 0:
            return
        if failure is not None:
            # An assertion without a message, or a KeyError, says little by its text alone.
            says_all = isinstance(failure, AssertionError) and str(failure)
            why = f": {failure if says_all else repr(failure)}"
        else:
            why = "" if self._found is None else f": {self._found()}"
        raise TimeoutError(f"waited {self._timeout} for {self._what}{why}") from failure
