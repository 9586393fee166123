"""The kernel's short way of `send`, and its calls of callbacks: both twins do the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.client_kernels import COMPILED, both_kernels, compiled_needed, outcome

from ottla.client.model import RecordMetadata
from ottla.records import _client_kernel_py

LEAST = 100
NUMBERS = st.integers(-1, 2**40)

entries = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=200)


@both_kernels
@given(entries=entries, base_offset=st.integers(-1, 2**62), append_time_ms=st.integers(-1, 2**40))
def test_callbacks_get_the_metadata_of_their_records(
    kernel: Any, entries: list[Any], base_offset: int, append_time_ms: int
) -> None:
    callbacks = kernel.Callbacks()
    told: list[Any] = []
    for number, entry in enumerate(entries):
        callbacks.add(*entry, lambda *got, number=number: told.append((number, got)))
    assert [entry[:4] for entry in callbacks.entries()] == entries
    callbacks.deliver(RecordMetadata, "t", 3, base_offset, append_time_ms, told.clear)
    assert told == [
        (
            number,
            (
                RecordMetadata(
                    "t",
                    3,
                    -1 if base_offset < 0 else base_offset + index,
                    timestamp if append_time_ms < 0 else append_time_ms,
                    key_size,
                    value_size,
                ),
                None,
            ),
        )
        for number, (index, timestamp, key_size, value_size) in enumerate(entries)
    ]
    assert all(type(metadata) is RecordMetadata for _, (metadata, _) in told)


@both_kernels
@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_callback_that_raises_does_not_keep_the_others_from_theirs(
    kernel: Any, error: type[BaseException]
) -> None:
    callbacks = kernel.Callbacks()
    told: list[object] = []

    def fail(*_: object) -> None:
        raise error

    for function in (fail, lambda *_: told.append("called"), fail):
        callbacks.add(0, 0, 0, 0, function)
    callbacks.deliver(RecordMetadata, "t", 0, 0, -1, lambda: told.append("failed"))
    assert told == ["failed", "called", "failed"]


@both_kernels
def test_an_interrupt_of_a_callback_comes_through(kernel: Any) -> None:
    callbacks = kernel.Callbacks()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    callbacks.add(0, 0, 0, 0, interrupt)
    with pytest.raises(KeyboardInterrupt):
        callbacks.deliver(RecordMetadata, "t", 0, 0, -1, list)


@both_kernels
def test_callbacks_may_add_others_while_they_are_called(kernel: Any) -> None:
    """They are called on the loop, when the batch takes no more records; nothing else may break."""
    callbacks = kernel.Callbacks()
    told: list[int] = []

    def add(metadata: RecordMetadata, _: object) -> None:
        told.append(metadata.offset)
        for _ in range(100):
            callbacks.add(0, 0, 0, 0, lambda *_: None)

    callbacks.add(7, 0, 0, 0, add)
    callbacks.deliver(RecordMetadata, "t", 0, 0, -1, list)
    assert told == [7]


@both_kernels
def test_metadata_is_a_named_tuple(kernel: Any) -> None:
    with pytest.raises(TypeError, match="has to be a named tuple"):
        kernel.Callbacks().deliver(dict, "t", 0, 0, -1, list)


class Stage:
    """A topic with two queues, the second of which has no open batch, and a writer for it."""

    def __init__(self, kernel: Any, limit_bytes: int = 60, ignores_keys: bool = False) -> None:
        class Sent(kernel.SentRecord):  # type: ignore[misc]
            __slots__ = ()

        self.builder = kernel.RecordsBuilder(limit_bytes)
        self.batch = SimpleNamespace(builder=self.builder)
        self.full = SimpleNamespace(open=None)
        self.queue = SimpleNamespace(open=self.batch)
        self.topic = SimpleNamespace(
            count=2, queues=(self.queue, self.full), sticky_queue=self.queue
        )
        self.accumulator = SimpleNamespace(refusal=None)
        self.writer = kernel.QuickWriter(
            {"t": self.topic}, self.accumulator, Sent, ignores_keys, LEAST
        )

    def send(self, topic: Any = "t", value: Any = b"v", **fields: Any) -> Any:
        """What the caller gets of it, as far as twins can be compared."""
        arguments = {
            "key": None,
            "partition": None,
            "headers": None,
            "timestamp": LEAST,
            "on_delivery": None,
        }
        sent = self.writer.try_send(topic, value, *(arguments | fields).values())
        if sent is None:
            return None
        assert sent._batch is self.batch
        return sent._index, sent._timestamp, sent._key_size, sent._value_size

    def state(self) -> Any:
        callbacks = self.builder.callbacks
        # The compiled twin makes room for a callback before it knows whether its record fits.
        return self.builder.section(), callbacks.entries() if callbacks else None


def callback(*_: object) -> None:
    """An on_delivery."""


class Text(bytes):
    """Bytes of a class of the program's own."""


odd = st.sampled_from([0, 1, 2, -1, True, False, "x", 1.0, b"", Text(b"x"), [], (), {}, object])
sends = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "topic": st.sampled_from(["t", "other", None, b"t", []]),
            "value": st.one_of(st.none(), st.binary(max_size=30), odd),
            "key": st.one_of(st.none(), st.binary(max_size=8), odd),
            "partition": st.one_of(st.none(), odd),
            "headers": st.one_of(
                st.none(),
                st.just([("h", b"v")]),
                st.just({"h": b"v"}),
                st.just((("h", None),)),
                odd,
            ),
            "timestamp": st.one_of(st.integers(-5, 10**15), st.just(2**70), odd),
            "on_delivery": st.one_of(st.just(callback), odd),
        },
    ),
    max_size=10,
)


@compiled_needed
@given(sends=sends, ignores_keys=st.booleans(), refuses=st.booleans(), is_closed=st.booleans())
def test_the_twins_write_the_same(
    sends: list[Any], ignores_keys: bool, refuses: bool, is_closed: bool
) -> None:
    pure, compiled = (
        Stage(kernel, ignores_keys=ignores_keys) for kernel in (_client_kernel_py, COMPILED)
    )
    for stage in (pure, compiled):
        if refuses:
            stage.accumulator.refusal = RuntimeError
        if is_closed:
            stage.builder.close()
    for fields in sends:
        assert outcome(compiled.send, **fields) == outcome(pure.send, **fields)
        assert compiled.state() == pure.state()


@both_kernels
def test_a_record_goes_to_its_queue(kernel: Any) -> None:
    stage = Stage(kernel)
    assert stage.send(on_delivery=callback, key=None) == (0, LEAST, -1, 1)
    assert stage.send(partition=0, value=None) == (1, LEAST, -1, -1)
    assert stage.send(partition=1) is None, "no batch is open there"
    assert stage.state()[1] == [(0, LEAST, -1, 1, callback)]


@both_kernels
def test_keys_choose_the_partition_unless_they_are_ignored(kernel: Any) -> None:
    keys = [b"%d" % number for number in range(20)]
    first = [key for key in keys if kernel.partition_of_key(key, 2) == 0]
    stage = Stage(kernel, 10_000)
    assert [key for key in keys if stage.send(key=key)] == first
    stage = Stage(kernel, 10_000, ignores_keys=True)
    assert all(stage.send(key=key) for key in keys)


@both_kernels
@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "other"},
        {"value": "text"},
        {"key": "text"},
        {"partition": 2},
        {"partition": -1},
        {"partition": True},
        {"headers": {"a": b""}},
        {"timestamp": LEAST - 1},
        {"timestamp": True},
        {"on_delivery": 5},
    ],
)
def test_what_needs_the_long_way_is_left_to_it(kernel: Any, fields: Any) -> None:
    stage = Stage(kernel)
    assert stage.send(**fields) is None
    assert stage.state() == (b"", None)


@both_kernels
def test_nothing_is_written_while_records_are_refused(kernel: Any) -> None:
    stage = Stage(kernel)
    stage.accumulator.refusal = RuntimeError
    assert stage.send() is None
    assert stage.state() == (b"", None)


@both_kernels
def test_a_batch_that_was_encoded_elsewhere_takes_no_records(kernel: Any) -> None:
    stage = Stage(kernel)
    stage.batch.builder = None
    assert stage.send() is None


@both_kernels
def test_a_record_that_does_not_fit_has_no_callback(kernel: Any) -> None:
    stage = Stage(kernel)
    assert stage.send() is not None
    assert stage.send(value=b"x" * 60, on_delivery=callback) is None
    callbacks = stage.builder.callbacks
    assert callbacks is None or not len(callbacks)
