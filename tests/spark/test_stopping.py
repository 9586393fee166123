"""Signals while a pipeline runs: the first one is noted, the second one does not wait."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from ottla.spark.stopping import Stop


def test_a_signal_is_noted_and_obeyed_when_it_is_time() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_wanted
        with pytest.raises(KeyboardInterrupt):
            stop.obey()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_signal_does_not_wait() -> None:
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop.is_wanted


def test_without_a_signal_nothing_happens_and_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Stop() as stop:
        assert signal.getsignal(signal.SIGTERM) != before[1]
        stop.obey()
        assert not stop.is_wanted
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_handlers_that_others_install_in_between_are_put_back_too() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with Stop() as stop:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            stop.listen()
            signal.raise_signal(signal.SIGINT)
            assert stop.is_wanted
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_pause_ends_with_a_signal() -> None:
    with Stop() as stop:
        signal.raise_signal(signal.SIGTERM)
        began = time.monotonic()
        stop.sleep(3600)
        assert time.monotonic() - began < 60


def test_other_threads_leave_signals_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def run() -> None:
        with Stop() as stop:
            seen.append(signal.getsignal(signal.SIGINT))
            stop.obey()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]
