"""DeleteTopics: by name and by id, and the data goes with the topic."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Starter
from tests.broker.requests import (
    create,
    eventually,
    every_version_of,
    fetch,
    fill,
    read_values,
    session_with,
)
from tests.broker.test_create_topics import exists

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode
from ottla.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


def ask(connection: RawConnection, version: int, **fields: Any) -> list[DeletableTopicResult]:
    request = DeleteTopicsRequest(timeout_ms=1000, **fields)
    results: list[DeletableTopicResult] = connection.call(
        request, DeleteTopicsResponse, version
    ).responses
    return results


def by_name(connection: RawConnection, *names: str, version: int = 5) -> list[int]:
    """The errors of deleting topics by their names."""
    if version < 6:
        results = ask(connection, version, topic_names=list(names))
    else:
        results = ask(connection, version, topics=[DeleteTopicState(name=name) for name in names])
    assert [result.name for result in results] == list(names)
    return [result.error_code for result in results]


@pytest.mark.parametrize("version", every_version_of(DeleteTopicsRequest))
def test_topics_are_deleted_by_name(connection: RawConnection, topic: str, version: int) -> None:
    create(connection, topic)
    fill(connection, topic, b"v")
    assert by_name(connection, topic, version=version) == [ErrorCode.NONE]
    assert not exists(connection, topic)
    gone = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert by_name(connection, topic, version=version) == gone
    assert fetch(connection, topic, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_are_deleted_by_id(connection: RawConnection, topic: str) -> None:
    topic_id = create(connection, topic)
    (result,) = ask(connection, 6, topics=[DeleteTopicState(topic_id=topic_id)])
    assert (result.error_code, result.name, result.topic_id) == (0, topic, topic_id)
    assert not exists(connection, topic)
    (result,) = ask(connection, 6, topics=[DeleteTopicState(topic_id=topic_id)])
    assert (result.error_code, result.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_an_id_of_nothing(connection: RawConnection) -> None:
    (result,) = ask(connection, 6, topics=[DeleteTopicState(topic_id=uuid.uuid4())])
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert result.error_message


def test_a_name_and_an_id_or_neither_is_invalid(connection: RawConnection, topic: str) -> None:
    topic_id = create(connection, topic)
    both = DeleteTopicState(name=topic, topic_id=topic_id)
    results = ask(connection, 6, topics=[both, DeleteTopicState()])
    assert [result.error_code for result in results] == [ErrorCode.INVALID_REQUEST] * 2
    assert exists(connection, topic)


def test_a_topic_named_twice_is_not_deleted(connection: RawConnection, topic: str) -> None:
    create(connection, topic)
    other = f"{topic}-other"
    create(connection, other)
    request_errors = by_name(connection, topic, other, topic)
    assert request_errors == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert exists(connection, topic)
    assert not exists(connection, other)


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (1, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.TOPIC_DELETION_DISABLED),
        (6, ErrorCode.TOPIC_DELETION_DISABLED),
    ],
)
def test_deletion_can_be_switched_off(
    start: Starter, topic: str, version: int, error: ErrorCode
) -> None:
    with session_with(start(delete_topic_enable=False)) as connection:
        create(connection, topic)
        assert by_name(connection, topic, version=version) == [error]
        assert exists(connection, topic)


def test_the_data_is_gone_and_a_new_topic_starts_empty(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        old_id = create(connection, topic, 2)
        fill(connection, topic, b"secret", partition=0)
        fill(connection, topic, b"secret", partition=1)
        assert by_name(connection, topic) == [ErrorCode.NONE]
        assert eventually(lambda: not _files_with(broker.data_dir, b"secret"))
        new_id = create(connection, topic)
        assert new_id != old_id
        assert fill(connection, topic, b"fresh") == [0]
        assert read_values(connection, topic) == [b"fresh"]
    broker.stop()
    with session_with(start()) as connection:
        assert read_values(connection, topic) == [b"fresh"]
        assert not exists(connection, f"{topic}-1")


def _files_with(data_dir: str, text: bytes) -> list[Path]:
    """Unlike a glob, a walk goes on when a folder is deleted on the way."""
    found = [Path(folder, name) for folder, _, names in os.walk(data_dir) for name in names]
    return [path for path in found if ".log" in path.name and text in _what_is_left(path)]


def _what_is_left(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def test_a_deleted_topic_stays_deleted_after_a_restart(start: Starter, topic: str) -> None:
    broker = start()
    with session_with(broker) as connection:
        create(connection, topic)
        fill(connection, topic, b"v")
        by_name(connection, topic)
    broker.stop()
    with session_with(start(auto_create_topics_enable=False)) as connection:
        assert not exists(connection, topic)
        assert fetch(connection, topic, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
