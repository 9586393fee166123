"""Time limits that are arguments are seconds and called `timeout`; milliseconds are in names that end in _ms."""

from __future__ import annotations

import asyncio
import inspect

import pytest

import ottla
from ottla import aio

CLIENTS: list[tuple[type[object], type[object]]] = [
    # With the class whose methods are public: those of asyncio clients have more, for their faces.
    (ottla.Producer, ottla.Producer),
    (ottla.Consumer, ottla.Consumer),
    (ottla.Admin, ottla.Admin),
    (ottla.RecordFuture, ottla.RecordFuture),
    (ottla.SentRecords, ottla.SentRecords),
    (aio.Producer, ottla.Producer),
    (aio.Consumer, ottla.Consumer),
    (aio.Admin, ottla.Admin),
]
LIMITS = [
    (f"{client.__module__}.{client.__name__}.{name}", parameter)
    for client, public in CLIENTS
    for name, method in inspect.getmembers(client, callable)
    if not name.startswith("_") and hasattr(public, name)
    for parameter in inspect.signature(method).parameters.values()
    if "timeout" in parameter.name
]
ADMIN_CALLS = sorted(
    name
    for name, method in inspect.getmembers(aio.Admin, inspect.iscoroutinefunction)
    if hasattr(ottla.Admin, name) and "timeout" in inspect.signature(method).parameters
)


@pytest.mark.parametrize(("where", "limit"), LIMITS, ids=lambda value: str(value))
def test_every_time_limit_is_called_timeout_and_is_a_number_of_seconds(
    where: str, limit: inspect.Parameter
) -> None:
    assert limit.name == "timeout"
    assert limit.annotation in ("float", "float | None")


def test_all_calls_of_the_admin_client_have_one() -> None:
    assert len(ADMIN_CALLS) == 44


@pytest.mark.parametrize("call", ADMIN_CALLS)
def test_timeout_ms_is_refused_with_what_to_write(call: str) -> None:
    method = getattr(aio.Admin, call)
    with pytest.raises(
        TypeError, match=rf"{call}\(\) .* write timeout=1.5 instead of timeout_ms=1500"
    ):
        asyncio.run(method(None, timeout_ms=1500))


def test_a_timeout_that_is_no_number_is_refused() -> None:
    with (
        ottla.Admin(bootstrap_servers="127.0.0.1:1") as admin,
        pytest.raises(TypeError, match="a timeout is a number of seconds, not '3'"),
    ):
        admin.list_topics(timeout="3")  # type: ignore[arg-type]
