"""The state of a Python process of the sink between two calls of Spark.

Spark makes a new writer for every call: one plans the tasks, copies of it run in the tasks, another one commits. All
that connects two calls in one process is a module. This is the only one that keeps anything for the sink.

Lifetime: the process, which Spark ends after a minute without work. Everything here saves requests; nothing depends on
it, since the next call may come in another process.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.client.blocking.admin import Admin
from ottla.client.blocking.producer import Producer

if TYPE_CHECKING:
    from ottla.spark.sink.commit_session import CommitSession

_Options = tuple[tuple[str, str], ...]


class SinkProcess:
    """Clients, idle commit sessions, and what is known of checkpoints."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._producers: dict[_Options, Producer] = {}
        self._admins: dict[_Options, Admin] = {}
        self._sessions: dict[tuple[object, ...], CommitSession] = {}
        self.unreadable_checkpoints: set[str | None] = set()
        """Locations that could not be read and need not be: each is tried once, which may take long."""
        self.checkpoint_locations: dict[tuple[str, str, str | None], str] = {}
        """By query id, root and query name. The checkpoint of a query does not move."""

    def producer(self, options: Mapping[str, str]) -> Producer:
        """A producer without transactions."""
        key = tuple(sorted(options.items()))
        with self._lock:
            found = self._producers.get(key)
            if found is None:
                found = self._producers[key] = Producer(dict(options))
            return found

    def admin(self, options: Mapping[str, str]) -> Admin:
        """An admin client."""
        key = tuple(sorted(options.items()))
        with self._lock:
            found = self._admins.get(key)
            if found is None:
                found = self._admins[key] = Admin(dict(options))
            return found

    def take_session(self, key: tuple[object, ...]) -> CommitSession | None:
        """The idle session of a target; the caller owns it from now on."""
        with self._lock:
            return self._sessions.pop(key, None)

    def return_session(self, session: CommitSession) -> None:
        """Keep a session for the next micro-batch; at most one of each target."""
        key = session.target.key
        with self._lock:
            former = self._sessions.get(key)
            self._sessions[key] = session
        if former is not None:
            former.close()

    def take_sessions_of(self, pipeline: str) -> list[CommitSession]:
        """All idle sessions of a pipeline."""
        with self._lock:
            keys = [key for key, each in self._sessions.items() if each.target.pipeline == pipeline]
            return [self._sessions.pop(key) for key in keys]


SINK_PROCESS: Final = SinkProcess()
"""That of this process."""
