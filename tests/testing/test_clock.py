"""The clock of a broker under test goes, stops and moves as the test says."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.errors import ConfigError
from ottla.testing.clock import BrokerClock, MovableClock, wall_seconds_of


class RealTime:
    def __init__(self) -> None:
        self.wall = 1_000.0
        self.monotonic = 5.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


@pytest.fixture
def real() -> RealTime:
    return RealTime()


@pytest.fixture
def clock(real: RealTime) -> MovableClock:
    return MovableClock(lambda: real.wall, lambda: real.monotonic)


def shown(clock: MovableClock) -> tuple[float, float]:
    return clock.now_ms() / 1000, clock.monotonic_seconds()


def test_it_shows_real_time_until_it_is_moved(clock: MovableClock, real: RealTime) -> None:
    assert shown(clock) == (1_000, 5)
    real.pass_by(2)
    assert shown(clock) == (1_002, 7)
    clock.shift(60)
    assert shown(clock) == (1_062, 67)
    real.pass_by(1)
    assert shown(clock) == (1_063, 68)


def test_a_frozen_clock_only_moves_when_it_is_moved(clock: MovableClock, real: RealTime) -> None:
    clock.freeze()
    real.pass_by(100)
    assert shown(clock) == (1_000, 5)
    clock.shift(3)
    clock.freeze()  # again, which changes nothing
    assert shown(clock) == (1_003, 8)
    clock.resume()
    real.pass_by(1)
    assert shown(clock) == (1_004, 9)


def test_setting_the_wall_clock_lets_no_time_pass(clock: MovableClock, real: RealTime) -> None:
    clock.set_wall(50)
    assert shown(clock) == (50, 5)
    clock.freeze()
    clock.set_wall(9_000)
    real.pass_by(1)
    assert shown(clock) == (9_000, 5)


def test_the_broker_does_what_is_due_whenever_its_clock_is_moved(clock: MovableClock) -> None:
    moves: list[tuple[float, float]] = []

    def move(change: Any) -> None:
        change()
        moves.append(shown(clock))

    broker_clock = BrokerClock(clock, move)
    broker_clock.freeze()
    broker_clock.advance("1m")
    broker_clock.set("1970-01-01T00:01:00Z")
    assert moves == [(1_060, 65), (60, 65)]
    assert broker_clock.now == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert broker_clock.is_frozen


@pytest.mark.parametrize("duration", [-1, "-5s", "a while", None])
def test_time_does_not_go_back_by_advancing(clock: MovableClock, duration: Any) -> None:
    with pytest.raises(ConfigError):
        BrokerClock(clock, lambda change: change()).advance(duration)
    assert shown(clock) == (1_000, 5)


@pytest.mark.parametrize("moment", ["tomorrow", -5, True, None, datetime(2026, 1, 1)])
def test_what_is_no_moment_is_refused(moment: Any) -> None:
    with pytest.raises(ConfigError):
        wall_seconds_of(moment)
