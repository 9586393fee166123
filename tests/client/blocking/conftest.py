"""A broker whose sessions may be short, and topics with records."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest
from tests.broker.requests import batch_of, create, produce
from tests.lasting import LASTING

from ottla import Broker
from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode

Fill = Callable[..., str]


def new_threads(before: set[threading.Thread], name: str) -> list[threading.Thread]:
    """Those whose names begin so and that were not there before."""
    now = [thread for thread in threading.enumerate() if thread not in before]
    return [thread for thread in now if thread.name.startswith(name)]


def forgotten(use: Callable[[], threading.Thread]) -> tuple[threading.Thread, list[str]]:
    """The thread of a client that is used and not closed, and the warnings that name it."""
    # What other tests left is collected before, and does not count.
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread = use()
        gc.collect()
    messages = [str(each.message) for each in caught]
    return thread, [message for message in messages if message.endswith(thread.name)]


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker(LASTING, group_min_session_timeout_ms=200) as running:
        yield running


@pytest.fixture
def fill(broker: Broker, ottla_topic_name: Callable[[], str]) -> Fill:
    """Makes a topic; each partition has the values 0, 1, 2 and so on."""

    def make(count: int = 0, partitions: int = 1) -> str:
        topic = ottla_topic_name()
        values = [b"%d" % number for number in range(count)]
        with RawConnection(broker.bootstrap_servers) as connection:
            create(connection, topic, partitions)
            for partition in range(partitions):
                if values:
                    answer = produce(connection, topic, batch_of(*values), partition=partition)
                    assert answer.error_code == ErrorCode.NONE
        return topic

    return make
