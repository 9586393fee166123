"""When a member sends heartbeats, and when it gives up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.state.backoff import Backoff
from ottla.client.state.group.heartbeat_schedule import DueAction, HeartbeatSchedule


def beats(now_ms: float = 0) -> HeartbeatSchedule:
    return HeartbeatSchedule(
        interval_ms=3000,
        session_timeout_ms=45_000,
        max_poll_interval_ms=300_000,
        retry=Backoff(100, 1000),
        now_ms=now_ms,
    )


def test_a_heartbeat_is_due_after_the_interval() -> None:
    timers = beats()
    assert timers.due(2999) is DueAction.WAIT
    assert timers.due(3000) is DueAction.SEND
    timers.sent(3000)
    assert timers.due(5999) is DueAction.WAIT
    assert timers.due(6000) is DueAction.SEND


def test_a_heartbeat_that_failed_is_repeated_after_the_backoff_not_the_interval() -> None:
    timers = beats()
    timers.sent(3000)
    timers.failed(3010, 0.5)
    assert timers.due(3109) is DueAction.WAIT
    assert timers.due(3110) is DueAction.SEND
    timers.sent(3110)
    timers.failed(3120, 0.5)
    assert timers.due(3319) is DueAction.WAIT, "the pauses grow"
    timers.answered(3300)
    timers.failed(4000, 0.5)
    assert timers.due(4100) is DueAction.SEND, "and begin anew after an answer"


def test_the_session_ends_when_nothing_is_answered() -> None:
    timers = beats()
    timers.answered(10_000)
    assert timers.due(54_999) is DueAction.SEND
    assert timers.due(55_000) is DueAction.SESSION_EXPIRED
    timers.restart_session(60_000)
    assert timers.due(60_000) is DueAction.SEND


def test_nobody_polling_is_noticed_though_heartbeats_are_answered() -> None:
    timers = beats()
    timers.polled(1000)
    timers.answered(300_999)
    timers.sent(300_999)
    assert timers.due(300_999) is DueAction.WAIT
    assert timers.due(301_000) is DueAction.POLL_EXPIRED


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["sent", "answered", "failed", "polled"]), st.floats(0, 5000))
    )
)
def test_waiting_until_next_never_misses_anything(steps: list[tuple[str, float]]) -> None:
    timers, now_ms = beats(), 0.0
    for step, delay_ms in steps:
        now_ms += delay_ms
        if step == "failed":
            timers.failed(now_ms, 0.5)
        else:
            getattr(timers, step)(now_ms)
        next_ms = timers.next_ms()
        assert timers.due(next_ms) is not DueAction.WAIT
        if next_ms > now_ms:
            assert timers.due((now_ms + next_ms) / 2) is DueAction.WAIT
