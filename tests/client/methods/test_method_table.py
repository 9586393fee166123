"""Every public method of a producer and a consumer has a test that calls it on both faces."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from tests.client.methods import test_consumer_methods, test_producer_methods

import ottla
import ottla.aio

PRODUCER: dict[str, str] = {
    "send": "test_send",
    "send_many": "test_send_many",
    "send_arrow": "test_send_arrow",
    "send_encoded": "test_send_encoded",
    "flush": "test_flush",
    "partitions_for": "test_partitions_for_and_metrics",
    "metrics": "test_partitions_for_and_metrics",
    "init_transactions": "transactional",
    "begin_transaction": "test_transactions_are_begun_committed_and_aborted",
    "commit_transaction": "test_transactions_are_begun_committed_and_aborted",
    "abort_transaction": "test_transactions_are_begun_committed_and_aborted",
    "transaction": "test_transaction",
    "send_offsets_to_transaction": "test_send_offsets_to_transaction",
    "close": "test_close",
}
CONSUMER: dict[str, str] = {
    "subscribe": "test_subscribe_and_unsubscribe",
    "unsubscribe": "test_subscribe_and_unsubscribe",
    "subscription": "test_subscribe_and_unsubscribe",
    "assignment": "test_subscribe_and_unsubscribe",
    "assign": "test_assign",
    "poll": "test_poll",
    "poll_arrow": "test_poll_arrow",
    "commit": "test_commit_and_committed",
    "committed": "test_commit_and_committed",
    "commit_async": "test_commit_async",
    "position": "test_positions_and_seeks",
    "seek": "test_positions_and_seeks",
    "seek_to_beginning": "test_positions_and_seeks",
    "seek_to_end": "test_positions_and_seeks",
    "current_lag": "test_current_lag",
    "beginning_offsets": "test_offsets_of_partitions",
    "end_offsets": "test_offsets_of_partitions",
    "offsets_for_times": "test_offsets_of_partitions",
    "pause": "test_pause_and_resume",
    "paused": "test_pause_and_resume",
    "resume": "test_pause_and_resume",
    "list_topics": "test_topics_and_partitions",
    "partitions_for": "test_topics_and_partitions",
    "wakeup": "test_wakeup",
    "group_metadata": "test_group_metadata_and_enforce_rebalance",
    "enforce_rebalance": "test_group_metadata_and_enforce_rebalance",
    "metrics": "test_metrics_and_health",
    "health": "test_metrics_and_health",
    "close": "test_close",
}

TABLES: list[tuple[type[Any], dict[str, str], ModuleType]] = [
    (ottla.Producer, PRODUCER, test_producer_methods),
    (ottla.aio.Producer, PRODUCER, test_producer_methods),
    (ottla.Consumer, CONSUMER, test_consumer_methods),
    (ottla.aio.Consumer, CONSUMER, test_consumer_methods),
]


def public_methods(client: type[Any]) -> dict[str, Callable[..., Any]]:
    return {
        name: method
        for name, method in inspect.getmembers(client, callable)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(("client", "table", "module"), TABLES)
def test_every_method_is_in_the_table(
    client: type[Any], table: dict[str, str], module: ModuleType
) -> None:
    assert set(public_methods(client)) == set(table)


@pytest.mark.parametrize(("client", "table", "module"), TABLES[::2])
def test_the_test_of_a_method_calls_it(
    client: type[Any], table: dict[str, str], module: ModuleType
) -> None:
    for method, test in table.items():
        source = inspect.getsource(getattr(module, test))
        assert f".{method}(" in source, f"{test} does not call {method}()"


@pytest.mark.parametrize(("client", "table", "module"), TABLES)
def test_methods_are_typed_and_documented(
    client: type[Any], table: dict[str, str], module: ModuleType
) -> None:
    for name, method in public_methods(client).items():
        assert method.__doc__, name
        signature = inspect.signature(method)
        assert signature.return_annotation is not signature.empty, name
        for parameter in list(signature.parameters.values())[1:]:
            assert parameter.annotation is not parameter.empty, (name, parameter)


def test_both_faces_have_the_same_parameters() -> None:
    for blocking, native in (
        (ottla.Producer, ottla.aio.Producer),
        (ottla.Consumer, ottla.aio.Consumer),
    ):
        for name, method in public_methods(blocking).items():
            here = inspect.signature(method).parameters
            there = inspect.signature(public_methods(native)[name]).parameters
            assert list(here.values()) == list(there.values()), name


def test_producers_show_nothing_but_their_methods(broker: ottla.Broker) -> None:
    async def on_loop() -> set[str]:
        async with ottla.aio.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            return set(dir(producer))

    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for names in (set(dir(producer)), asyncio.run(on_loop())):
            assert {name for name in names if not name.startswith("_")} == set(PRODUCER)
