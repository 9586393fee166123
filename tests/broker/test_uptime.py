"""A clock that leaves out what nobody could have been heard in."""

from __future__ import annotations

from ottla.broker.loop.pause_aware_clock import PAUSE_MS, TICK_MS, Uptime


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_it_goes_like_any_clock_while_it_is_looked_at() -> None:
    clock = Clock()
    uptime = Uptime(clock)
    uptime.watch()
    start_ms = uptime.now_ms()
    for _ in range(20):
        clock.seconds += 1
        uptime.now_ms()
    assert uptime.now_ms() - start_ms == 20_000


def test_a_pause_counts_as_one_tick() -> None:
    clock = Clock()
    uptime = Uptime(clock)
    uptime.watch()
    start_ms = uptime.now_ms()
    clock.seconds += 3600
    assert uptime.now_ms() - start_ms == TICK_MS
    clock.seconds += 1
    assert uptime.now_ms() - start_ms == TICK_MS + 1000


def test_several_pauses_are_all_left_out() -> None:
    clock = Clock()
    uptime = Uptime(clock)
    uptime.watch()
    start_ms = uptime.now_ms()
    for _ in range(3):
        clock.seconds += 60
        uptime.now_ms()
    assert uptime.now_ms() - start_ms == 3 * TICK_MS


def test_a_late_tick_is_no_pause() -> None:
    clock = Clock()
    uptime = Uptime(clock)
    uptime.watch()
    start_ms = uptime.now_ms()
    clock.seconds += PAUSE_MS / 1000
    assert uptime.now_ms() - start_ms == PAUSE_MS


def test_it_never_goes_back() -> None:
    clock = Clock()
    uptime = Uptime(clock)
    uptime.watch()
    last_ms = uptime.now_ms()
    for step_ms in (1, PAUSE_MS, PAUSE_MS + 1, 10, 10 * PAUSE_MS, 0, 2999, 3001):
        clock.seconds += step_ms / 1000
        now_ms = uptime.now_ms()
        assert now_ms >= last_ms
        last_ms = now_ms


def test_before_it_is_watched_idle_time_counts() -> None:
    clock = Clock()
    uptime = Uptime(clock)
    start_ms = uptime.now_ms()
    clock.seconds += 3600
    assert uptime.now_ms() - start_ms == 3_600_000
    uptime.watch()
    clock.seconds += 3600
    assert uptime.now_ms() - start_ms == 3_600_000 + TICK_MS
