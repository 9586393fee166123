"""Signals while a pipeline runs: the first one is noted, the second one does not wait."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from ottla.spark.pipeline.stop_signals import Stop


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


def test_what_is_shielded_installs_no_handlers() -> None:
    def work() -> str:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return "done"

    before = signal.getsignal(signal.SIGINT)
    with Stop() as stop:
        assert stop.shield(work) == "done"
        signal.raise_signal(signal.SIGINT)
        assert stop.is_wanted
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_of_what_is_shielded_is_raised() -> None:
    def work() -> None:
        raise LookupError("nothing there")

    with Stop() as stop, pytest.raises(LookupError, match="nothing there"):
        stop.shield(work)


def test_what_is_shielded_is_not_waited_for_after_a_second_signal() -> None:
    begun, end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        end.wait(60)

    def send() -> None:
        begun.wait(60)
        signal.pthread_kill(main, signal.SIGINT)
        while not stop.is_wanted:
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    main, stop = threading.get_ident(), Stop()
    sender = threading.Thread(target=send)
    sender.start()
    try:
        with stop, pytest.raises(KeyboardInterrupt):
            stop.shield(work)
        assert not end.is_set()
    finally:
        end.set()
        sender.join()


def test_whoever_waits_is_told_once_and_not_by_the_handler() -> None:
    told: list[str] = []
    with Stop(lambda: told.append("stopping")) as stop:
        assert not stop.notice()
        signal.raise_signal(signal.SIGTERM)
        assert told == []
        stop.shield(lambda: time.sleep(0.3))
        assert stop.notice()
    assert told == ["stopping"]


def test_whoever_cannot_be_told_does_not_keep_it_from_stopping() -> None:
    """As with `2>&1 | tee log`: the same Ctrl-C ends the reader."""

    def fail() -> None:
        raise BrokenPipeError

    with Stop(fail) as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.notice()


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
