"""Every request that a broker under test got, and what became of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from ottla.errors import ErrorCode
from ottla.testing.subjects import Named, Names

# The oldest requests are forgotten.
MAX_REQUESTS: Final = 10_000
SHOWN_NAMES: Final = 4
# Of what a request names; one may name a hundred thousand partitions. Topics are kept without them.
MAX_NAMES: Final = 100
MAX_TOPICS: Final = 10_000
# Of all that is kept together, requests and names of things, so that the log takes less than 100 MB.
MAX_KEPT: Final = 200_000
# Kafka's topic names have at most 249 characters; a hostile client may send 32,000.
MAX_CHARACTERS: Final = 250
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
    # The first of what it names, how much that is, and the topics in all of it.
    named: Sequence[Named]
    named_count: int
    topics: frozenset[str]
    # What a fault did to it.
    fault: str | None = None
    # The errors of the response by name, with how often each is in it; None while there is no response.
    errors: dict[str, int] | None = None
    # Why there will be none.
    lost: str | None = None
    seconds: float | None = None

    @property
    def kept(self) -> int:
        """How much of the log it takes."""
        return 1 + len(self.named) + sum(1 + len(each) // MAX_CHARACTERS for each in self.topics)

    @property
    def is_answered(self) -> bool:
        return self.errors is not None

    def answer(self, errors: dict[str, int], seconds: float) -> None:
        """Notes the errors of its response, and after how much time by the broker's clock it came."""
        self.errors, self.seconds = errors, seconds

    def names(self, topic: str) -> bool:
        """Whether it is about a topic."""
        return topic in self.topics

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
        self._requests: deque[LoggedRequest] = deque()
        self._count = 0
        self._kept = 0

    def add(
        self,
        *,
        at_ms: int,
        node_id: int,
        api: str,
        version: int,
        client_id: str | None,
        names: Names,
    ) -> LoggedRequest:
        self._count += 1
        first = tuple(islice(names, MAX_NAMES + 1))
        if len(first) <= MAX_NAMES:
            count = len(first)
            topics = frozenset(each.topic for each in first if each.topic is not None)
        else:
            count = names.count
            topics = frozenset(islice(names.topics, MAX_TOPICS))
        request = LoggedRequest(
            self._count,
            at_ms,
            node_id,
            api,
            version,
            client_id if client_id is None else client_id[:MAX_CHARACTERS],
            first[:MAX_NAMES],
            count,
            topics,
        )
        self._requests.append(request)
        self._kept += request.kept
        while len(self._requests) > MAX_REQUESTS or self._kept > MAX_KEPT:
            self._kept -= self._requests.popleft().kept
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
        while self._requests:
            self._kept -= self._requests.popleft().kept

    def __iter__(self) -> Iterator[LoggedRequest]:
        return iter(self._requests.copy())

    def __len__(self) -> int:
        return len(self._requests)


def format_requests(requests: Sequence[LoggedRequest], most: int) -> str:
    """The last requests, a line each."""
    left_out = max(0, len(requests) - most)
    lines = [f"({left_out} earlier requests are left out)"] if left_out else []
    return "\n".join([*lines, *map(str, islice(requests, left_out, None))])
