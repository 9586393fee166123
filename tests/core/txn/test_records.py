"""Records of `__transaction_state`: as Kafka writes them, there and back, and garbage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.txn import records
from ottla.core.txn.events import Event, TransactionDeleted, TransactionSaved
from ottla.core.txn.states import TxnState
from ottla.model import TopicPartition
from ottla.wire.compile import decode_stored, encode_stored
from ottla.wire.stored.transaction_log import TransactionLogKey, TransactionLogValue
from ottla.wire.types import MalformedMessageError

INT16, INT32, INT64 = (st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (16, 32, 64))
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
PARTITIONS = st.lists(st.tuples(st.sampled_from(["a", "b", "é"]), st.integers(0, 5)), unique=True)


@st.composite
def saved(draw: Any) -> TransactionSaved:
    state = draw(st.sampled_from(list(TxnState)))
    # In the order in which the record has them: those of one topic together.
    pairs = sorted(draw(PARTITIONS)) if state is not TxnState.EMPTY else []
    return TransactionSaved(
        draw(NAMES),
        draw(INT64),
        draw(INT16),
        draw(INT32),
        state,
        tuple(TopicPartition(*pair) for pair in pairs),
        draw(INT64),
        draw(INT64),
        draw(INT64),
        draw(INT64),
        draw(st.integers(0, 127)),
    )


@given(event=saved() | NAMES.map(TransactionDeleted))
def test_events_survive_the_round_trip(event: Event) -> None:
    key, value = records.encode(event)
    assert records.decode(key, value) == event
    assert (value is None) == isinstance(event, TransactionDeleted)


@given(event=saved())
def test_a_record_is_as_it_is_declared(event: TransactionSaved) -> None:
    key, value = records.encode(event)
    assert value is not None
    assert encode_stored(decode_stored(TransactionLogKey, key), 0) == key
    assert encode_stored(decode_stored(TransactionLogValue, value), 1) == value


@pytest.mark.parametrize("count", [31, 32, 33, 126, 127, 128, 300])
def test_a_transaction_may_have_many_partitions(count: int) -> None:
    partitions = tuple(
        TopicPartition(f"{'t' * 126}-{number % 3}", number // 3) for number in range(count)
    )
    by_topic = tuple(sorted(partitions))
    event = TransactionSaved("tx", 1, 2, 3, TxnState.ONGOING, by_topic, 4, 5)
    key, value = records.encode(event)
    assert value is not None
    assert records.decode(key, value) == event
    assert encode_stored(decode_stored(TransactionLogValue, value), 1) == value


def test_the_bytes_are_those_of_kafka() -> None:
    event = TransactionSaved(
        "tx", 4000, 3, 60_000, TxnState.PREPARE_COMMIT, (TopicPartition("t", 1),), 10, 5, 77, 78, 2
    )
    key, value = records.encode(event)
    assert key == b"\x00\x00" + b"\x00\x02tx"
    assert value is not None
    assert value == bytes.fromhex(
        "0001"  # version
        "0000000000000fa0"  # producer id
        "0003"  # epoch
        "0000ea60"  # timeout
        "02"  # PrepareCommit
        "02"  # one topic, compact
        "0274"  # "t"
        "02"
        "00000001"  # one partition
        "00"  # no tags
        "000000000000000a"  # last update
        "0000000000000005"  # start
        "03"  # three tags
        "0008"
        "000000000000004d"  # previous producer id
        "0108"
        "000000000000004e"  # next producer id
        "0202"
        "0002"  # client transaction version
    )


def test_an_empty_id_has_no_partitions_rather_than_none_of_them() -> None:
    _, value = records.encode(TransactionSaved("tx", 1, 0, 1, TxnState.EMPTY, (), 1, -1))
    assert value is not None
    assert value[2 + 8 + 2 + 4 + 1] == 0
    _, value = records.encode(TransactionSaved("tx", 1, 0, 1, TxnState.COMPLETE_ABORT, (), 1, 1))
    assert value is not None
    assert value[2 + 8 + 2 + 4 + 1] == 1


def test_version_0_is_read() -> None:
    """What Kafka wrote before it had KIP-890."""
    value = bytes.fromhex(
        "0000" "0000000000000fa0" "0003" "0000ea60" "01" "00000001" "000174" "00000001" "00000001"
        "000000000000000a" "0000000000000005"
    )  # fmt: skip
    assert records.decode(b"\x00\x00\x00\x02tx", value) == TransactionSaved(
        "tx", 4000, 3, 60_000, TxnState.ONGOING, (TopicPartition("t", 1),), 10, 5
    )


def test_keys_of_another_kind_are_left_alone() -> None:
    assert records.decode(None, b"") is None
    assert records.decode(b"\x00\x01\x00\x02tx", b"") is None


@pytest.mark.parametrize("status", [8, 99, -1])
def test_a_state_that_does_not_exist_is_malformed(status: int) -> None:
    key, value = records.encode(TransactionSaved("tx", 1, 0, 1, TxnState.EMPTY, (), 1, -1))
    assert value is not None
    damaged = value[:16] + (status & 0xFF).to_bytes(1, "big") + value[17:]
    with pytest.raises(MalformedMessageError):
        records.decode(key, damaged)


@given(event=saved(), data=st.data())
def test_garbage_is_malformed_and_nothing_else(
    event: TransactionSaved, data: st.DataObject
) -> None:
    key, value = records.encode(event)
    assert value is not None
    garbage = bytearray(data.draw(st.sampled_from([key, value])))
    for _ in range(data.draw(st.integers(1, 4))):
        garbage[data.draw(st.integers(0, len(garbage) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(garbage[: data.draw(st.integers(0, len(garbage)))])
    for pair in ((cut, value), (key, cut), (bytes(garbage), value), (key, bytes(garbage))):
        try:
            found = records.decode(*pair)
        except MalformedMessageError:
            continue
        assert found is None or isinstance(found, TransactionSaved | TransactionDeleted)
