"""An ordinary producer beside an attack: one record every 20 ms, acks=all."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from tests.broker.requests import batch_of, produce

from ottla.client.raw import RawConnection
from ottla.errors import ErrorCode

INTERVAL_SECONDS = 0.02
PATIENCE_SECONDS = 300.0


class Probe:
    """Produces numbered records until it is stopped; `acknowledged` are the values that the broker has taken."""

    def __init__(self, address: str, topic: str, first: int = 0) -> None:
        self.acknowledged: list[bytes] = []
        self.longest_wait_seconds = 0.0
        self.failure: str | None = None
        self._topic = topic
        self.next_record = first
        self._asked_at: float | None = None
        self._is_over = threading.Event()
        self._connection = RawConnection(address, timeout_seconds=PATIENCE_SECONDS)
        self._thread = threading.Thread(target=self._run, name="probe", daemon=True)
        self._thread.start()

    @property
    def waits_seconds(self) -> float:
        """How long it has been waiting for an answer."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else time.monotonic() - asked_at

    def _run(self) -> None:
        try:
            while not self._is_over.wait(INTERVAL_SECONDS):
                value = b"%08d" % self.next_record
                self.next_record += 1
                self._asked_at = began = time.monotonic()
                answer = produce(self._connection, self._topic, batch_of(value))
                self._asked_at = None
                waited = time.monotonic() - began
                self.longest_wait_seconds = max(self.longest_wait_seconds, waited)
                if answer.error_code != ErrorCode.NONE:
                    self.failure = f"the probe was answered {ErrorCode(answer.error_code).name}"
                    return
                self.acknowledged.append(value)
        except (OSError, ValueError) as error:
            if not self._is_over.is_set():
                self.failure = f"the probe failed: {error!r}"

    def go_on(self, records: int, seconds: float) -> bool:
        """Whether so many more records are taken in time."""
        goal = len(self.acknowledged) + records
        deadline = time.monotonic() + seconds
        while len(self.acknowledged) < goal and time.monotonic() < deadline:
            if self.failure is not None:
                return False
            time.sleep(0.005)
        return len(self.acknowledged) >= goal

    def reset(self) -> None:
        self.longest_wait_seconds = 0.0

    def stop(self) -> None:
        """Ends it, also in the middle of a wait."""
        self._is_over.set()
        self._thread.join(1.0)
        if self._thread.is_alive():
            with suppress(OSError):
                self._connection.socket.shutdown(2)
        self._thread.join()
        self._connection.close()
