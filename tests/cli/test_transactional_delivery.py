"""`ottla produce --transactional-id`, where the broker does not answer in time."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import pytest
from tests.cli.conftest import Ottla
from tests.cli.stalling import Pieces, Stalled

from ottla import Admin, Broker, Producer
from ottla.admin import NewTopic


@pytest.fixture
def topic(cli_broker: Broker) -> str:
    name = f"transacted-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=cli_broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name)])
    return name


def state_of(broker: Broker, transactional_id: str) -> str:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return admin.describe_transactions([transactional_id])[transactional_id].state


def test_a_commit_without_an_answer_is_not_called_an_abort(
    topic: str, cli_broker: Broker, inside: Ottla
) -> None:
    stalled = Stalled(cli_broker, topic)
    options = ("--transactional-id", topic, "--timeout", "2", "--print-offsets")
    done = inside("produce", topic, *options, stdin=Pieces(b"a\nb\n", stalled))
    stalled.release()
    assert (done.code, done.out) == (1, "")
    assert "aborted" not in done.err
    assert (
        f"the outcome of the transaction is unknown: `ottla transactions describe {topic}`"
        in done.err
    )


def test_a_commit_that_takes_long_is_waited_for(
    topic: str, cli_broker: Broker, inside: Ottla
) -> None:
    stalled = Stalled(cli_broker, topic)

    def stall_for_a_while() -> None:
        stalled()
        # When the first call has given up, and the second has begun.
        threading.Timer(2.5, stalled.release).start()

    options = ("--transactional-id", topic, "--timeout", "2", "--print-offsets")
    done = inside("produce", topic, *options, stdin=Pieces(b"a\nb\n", stall_for_a_while))
    assert (done.code, done.err) == (0, f"2 records written to {topic} in 1 transaction\n")
    assert done.lines == [f"{topic}\t0\t0", f"{topic}\t0\t1"]
    assert state_of(cli_broker, topic) == "CompleteCommit"


def test_ctrl_c_during_a_commit_says_that_it_was_committed(
    topic: str, cli_broker: Broker, inside: Ottla, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Producer.commit_transaction
    interrupts = [KeyboardInterrupt()]

    def interrupted(producer: Producer) -> None:
        # A real interrupt comes while the call waits, and the loop goes on with the commit.
        monkeypatch.setattr(producer._thread, "run", _raiser(producer, interrupts))
        commit(producer)

    monkeypatch.setattr(Producer, "commit_transaction", interrupted)
    done = inside("produce", topic, "--transactional-id", topic, stdin="a\nb\n")
    assert (done.code, done.err) == (
        130,
        f"ottla: interrupted: 2 records written to {topic} in 1 transaction\n",
    )
    assert state_of(cli_broker, topic) == "CompleteCommit"


def _raiser(producer: Producer, interrupts: list[KeyboardInterrupt]) -> Callable[..., object]:
    run = type(producer._thread).run

    def call(coroutine: object, *rest: object) -> object:
        found: object = run(producer._thread, coroutine, *rest)  # type: ignore[arg-type]
        if interrupts:
            raise interrupts.pop()
        return found

    return call
