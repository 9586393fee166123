"""Every request that a broker under test got, and what became of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from ottla.errors import ErrorCode
from ottla.testing.subjects import Named

# The oldest requests are forgotten.
MAX_REQUESTS: Final = 10_000
SHOWN_NAMES: Final = 4
# Of what a request names; one may name a hundred thousand partitions.
MAX_NAMES: Final = 1000
# In the report of a test that failed.
SHOWN_REQUESTS: Final = 100


@dataclass(eq=False)
class LoggedRequest:
    """A request: who sent it, what it is about, and what was answered."""

    number: int
    at_ms: int
    node_id: int
    api: str
    version: int
    client_id: str | None
    named: Sequence[Named]
    named_count: int
    # What a fault did to it.
    fault: str | None = None
    # The errors of the response by name, with how often each is in it; None while there is no response.
    errors: dict[str, int] | None = None
    # Why there will be none.
    lost: str | None = None
    seconds: float | None = None

    @property
    def is_answered(self) -> bool:
        return self.errors is not None

    def answer(self, errors: dict[str, int], seconds: float) -> None:
        """Notes the errors of its response, and after how much time by the broker's clock it came."""
        self.errors, self.seconds = errors, seconds

    def names(self, topic: str) -> bool:
        """Whether it is about a topic."""
        return any(each.topic == topic for each in self.named)

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.at_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
        about = ", ".join(filter(None, map(_text, self.named[:SHOWN_NAMES])))
        if self.named_count > SHOWN_NAMES:
            about += f" and {self.named_count - SHOWN_NAMES} more"
        line = f"{at} #{self.number} {self.api} v{self.version} of {self.client_id} to node {self.node_id}"
        if about:
            line += f" ({about})"
        return f"{line}: {self._outcome()}" + (f" [fault: {self.fault}]" if self.fault else "")

    def _outcome(self) -> str:
        if self.lost is not None:
            return self.lost
        if self.errors is None:
            return "no answer yet"
        took = "" if self.seconds is None else f" after {self.seconds * 1000:.1f} ms"
        return (", ".join(self.errors) or "ok") + took


def _text(named: Named) -> str:
    parts = []
    if named.topic is not None:
        parts.append(named.topic if named.partition is None else f"{named.topic}-{named.partition}")
    if named.group is not None:
        parts.append(f"group {named.group}")
    if named.transactional_id is not None:
        parts.append(f"transactional id {named.transactional_id}")
    return ", ".join(parts)


def error_names(counts: dict[int, int]) -> dict[str, int]:
    """Errors by name instead of by number."""
    return {ErrorCode(code).name: count for code, count in counts.items()}


class RequestLog:
    """The newest requests, oldest first. The broker's thread adds to it, others read it."""

    def __init__(self) -> None:
        self._requests: deque[LoggedRequest] = deque(maxlen=MAX_REQUESTS)
        self._count = 0

    def add(
        self,
        *,
        at_ms: int,
        node_id: int,
        api: str,
        version: int,
        client_id: str | None,
        named: Sequence[Named],
    ) -> LoggedRequest:
        self._count += 1
        request = LoggedRequest(
            self._count, at_ms, node_id, api, version, client_id, named[:MAX_NAMES], len(named)
        )
        self._requests.append(request)
        return request

    @property
    def count(self) -> int:
        """How many there have been, forgotten ones included: a mark for `since`."""
        return self._count

    def since(self, mark: int) -> list[LoggedRequest]:
        """Those that came after `count` was `mark`."""
        # A copy: the broker may add to it meanwhile.
        return [each for each in self._requests.copy() if each.number > mark]

    def clear(self) -> None:
        """Forgets all of them; `count` goes on."""
        self._requests.clear()

    def __iter__(self) -> Iterator[LoggedRequest]:
        return iter(self._requests.copy())

    def __len__(self) -> int:
        return len(self._requests)


def format_requests(requests: Sequence[LoggedRequest], most: int) -> str:
    """The last requests, a line each."""
    left_out = max(0, len(requests) - most)
    lines = [f"({left_out} earlier requests are left out)"] if left_out else []
    return "\n".join([*lines, *map(str, islice(requests, left_out, None))])
