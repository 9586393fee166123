"""What is done to brokers on shared storage, and to the servers of that storage."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from typing import Final, Protocol

from tests.history.shared_brokers import COUNT, LEASE_SECONDS, SharedBrokers
from tests.history.storage_proxy import StorageProxy, Trouble

from ottla.broker.crashpoints import CrashPoint

BEYOND_LEASE: Final = (LEASE_SECONDS + 0.5, LEASE_SECONDS + 3.0)
WITHIN_LEASE: Final = (0.2, 1.5)


class Did(Protocol):
    """Notes a deed."""

    def __call__(self, deed: str, **more: object) -> None: ...


class SharedFaults:
    """A fault ends what it has begun; only brokers that are down come back later, with `revive`."""

    def __init__(self, brokers: SharedBrokers, chance: random.Random, did: Did) -> None:
        self._brokers = brokers
        self._random = chance
        self._did = did
        self._returns: dict[int, float] = {}  # when a broker that is down starts again

    def faults(self) -> dict[Callable[[], None], int]:
        """What is done, and how often."""
        faults: dict[Callable[[], None], int] = {
            self._kill_one: 8,
            self._stop_one: 4,
            self._kill_all: 2,
            self._crash_one: 6,
            self._freeze_beyond_lease: 6,
            self._freeze_within_lease: 2,
            self._freeze_all: 1,
            self._crash_postgres: 3,
            self._crash_postgres_of_stopped_broker: 2,
            self._trouble_postgres: 8,
        }
        if self._brokers.s3_proxy is not None:
            faults[self._trouble_s3] = 8
        return faults

    def revive(self) -> None:
        """Starts brokers again whose time has come, and those that have died at a crash point."""
        for number in self._brokers.dead():
            broker = self._brokers.brokers[number]
            assert broker is not None
            if broker.armed is not None:
                self._did(f"died {broker.armed.name}")
            elif broker.has_served:
                log = self._brokers.log_path.read_text(encoding="utf-8")
                raise AssertionError(f"broker {number} has ended by itself\n{log[-3000:]}")
            else:
                self._did("did not start without its storage")
            self._brokers.kill_one(number)
            self._returns[number] = time.monotonic() + self._random.choice((0.0, 1.0, 5.0))
        now = time.monotonic()
        for number, at in list(self._returns.items()):
            if at <= now:
                del self._returns[number]
                self._brokers.start_one(number)

    def heal(self) -> None:
        self._returns.clear()
        self._brokers.heal_servers()

    def _some_live(self) -> int | None:
        live = self._brokers.live()
        return self._random.choice(live) if live else None

    def _end_later(self, number: int) -> None:
        """It may come back before its lease has run out, or long after."""
        self._returns[number] = time.monotonic() + self._random.choice((0.0, 0.5, 4.0, 6.0))

    # Brokers.

    def _kill_one(self) -> None:
        number = self._some_live()
        if number is not None:
            self._did("kill -9 of a broker", broker=number)
            self._brokers.kill_one(number)
            self._end_later(number)

    def _stop_one(self) -> None:
        number = self._some_live()
        if number is not None:
            self._did("clean stop of a broker", broker=number)
            self._brokers.stop_one(number)
            self._end_later(number)

    def _kill_all(self) -> None:
        self._did("kill -9 of all brokers")
        self._brokers.kill()
        self._returns = {number: time.monotonic() for number in range(COUNT)}

    def _crash_one(self) -> None:
        number = self._some_live()
        if number is not None:
            point = self._random.choice(list(CrashPoint))
            crash = (point, self._random.randint(1, 12))
            self._did("crash point set", point=point.name, count=crash[1], broker=number)
            self._brokers.kill_one(number)
            self._brokers.start_one(number, crash)

    def _freeze(self, numbers: list[int], seconds: float) -> None:
        for number in numbers:
            self._brokers.signal_one(number, signal.SIGSTOP)
        time.sleep(seconds)
        for number in numbers:
            self._brokers.signal_one(number, signal.SIGCONT)

    def _freeze_beyond_lease(self) -> None:
        number = self._some_live()
        if number is not None:
            self._did("SIGSTOP of a broker beyond its lease", broker=number)
            self._freeze([number], self._random.uniform(*BEYOND_LEASE))

    def _freeze_within_lease(self) -> None:
        number = self._some_live()
        if number is not None:
            self._did("SIGSTOP of a broker within its lease", broker=number)
            self._freeze([number], self._random.uniform(*WITHIN_LEASE))

    def _freeze_all(self) -> None:
        self._did("SIGSTOP of all brokers beyond their leases")
        self._freeze(list(range(COUNT)), self._random.uniform(*BEYOND_LEASE))

    # Servers.

    def _crash_postgres(self) -> None:
        seconds = self._random.choice((0.0, 1.0, 4.0))
        self._did("kill -9 of PostgreSQL", seconds=seconds)
        self._brokers.crash_postgres(seconds)

    def _crash_postgres_of_stopped_broker(self) -> None:
        """A broker wakes up with connections that are gone, and with a lease that nobody could end meanwhile."""
        number = self._some_live()
        if number is not None:
            self._did("kill -9 of PostgreSQL while a broker is stopped", broker=number)
            self._brokers.signal_one(number, signal.SIGSTOP)
            self._brokers.crash_postgres(self._random.choice((0.0, 3.0)))
            self._brokers.signal_one(number, signal.SIGCONT)

    def _trouble_postgres(self) -> None:
        self._trouble(self._brokers.postgres_proxy, "PostgreSQL", POSTGRES_TROUBLES)

    def _trouble_s3(self) -> None:
        assert self._brokers.s3_proxy is not None
        self._trouble(self._brokers.s3_proxy, "S3", S3_TROUBLES)

    def _trouble(
        self, proxy: StorageProxy, server: str, troubles: dict[Trouble, tuple[float, float]]
    ) -> None:
        trouble = self._random.choice(list(troubles))
        seconds = self._random.uniform(*troubles[trouble])
        self._did(f"{server}: {trouble.name}", seconds=seconds)
        proxy.begin(trouble, self._random.choice((0.02, 0.2)))
        time.sleep(seconds)
        proxy.begin(Trouble.NONE)
        if trouble is Trouble.NONE:
            proxy.cut()


# How long each lasts; NONE cuts all connections once.
POSTGRES_TROUBLES: Final = {
    Trouble.NONE: (0.0, 0.0),
    Trouble.SLOW: (1.0, 4.0),
    Trouble.LOSE_ANSWERS: (0.1, 1.5),
    Trouble.DEAD: (0.2, 5.0),
    Trouble.STUCK: (0.5, 5.0),
}
S3_TROUBLES: Final = {**POSTGRES_TROUBLES, Trouble.UNAVAILABLE: (0.2, 4.0)}
