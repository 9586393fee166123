"""When each part of the cluster was told, what is wrong with it, and when it is asked for again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from ottla.console.cluster.snapshot import Part, PartProblem
from ottla.errors import ErrorCode, KafkaError, OttlaError, PartialFailureError

K = TypeVar("K")

# A part that failed is asked for again; one that the cluster refuses or lacks seldom.
RETRY_SECONDS: Final = 4.0
REFUSED_SECONDS: Final = 30.0
MAX_SHOWN_ERRORS: Final = 3
_REFUSALS: Final = frozenset(
    {
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
# Between two polls topics go and leaders move, which the next answer about topics shows.
_PASSING: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)


class PartStates:
    """One for a poller; times are in seconds of a clock that never jumps, but for those that are shown."""

    def __init__(self) -> None:
        self.told_at_ms: dict[Part, int] = {}
        self._problems: dict[Part, PartProblem] = {}
        self._due_at: dict[Part, float] = {}

    @property
    def problems(self) -> tuple[PartProblem, ...]:
        """Those parts that were not told, or not wholly, when they were asked for last."""
        return tuple(self._problems[part] for part in Part if part in self._problems)

    def is_due(self, part: Part, at: float) -> bool:
        """Whether it is time to ask."""
        return at >= self._due_at.get(part, 0.0)

    def due(self, parts: Iterable[Part], at: float) -> list[Part]:
        """Those that it is time to ask for, the one that waits longest first."""
        some = [part for part in parts if self.is_due(part, at)]
        return sorted(some, key=lambda part: self._due_at.get(part, 0.0))

    def soonest(self, parts: Iterable[Part]) -> float:
        """When the next of these is due."""
        return min(self._due_at.get(part, 0.0) for part in parts)

    def make_due(self, parts: Iterable[Part]) -> None:
        """Ask for these as soon as possible."""
        for part in parts:
            self._due_at.pop(part, None)

    def told(self, part: Part, at_ms: int, due_at: float) -> None:
        """The part is known."""
        self.told_at_ms[part] = at_ms
        self._due_at[part] = due_at
        self._problems.pop(part, None)

    def told_in_part(self, part: Part, message: str, at_ms: int, due_at: float) -> None:
        """Some of the part is known."""
        self.told(part, at_ms, due_at)
        self._problems[part] = PartProblem(part, message, self._since(part, at_ms))

    def failed(self, part: Part, error: OttlaError, at_ms: int, at: float) -> None:
        """The cluster did not tell it: what was known stays."""
        refused = isinstance(error, KafkaError) and error.code in _REFUSALS
        self._due_at[part] = at + (REFUSED_SECONDS if refused else RETRY_SECONDS)
        message = error.message if isinstance(error, KafkaError) else str(error)
        self._problems[part] = PartProblem(part, message, self._since(part, at_ms))

    def _since(self, part: Part, at_ms: int) -> int:
        known = self._problems.get(part)
        return at_ms if known is None else known.since_ms


def lasting_errors(error: PartialFailureError) -> Mapping[Any, KafkaError]:
    """The errors that do not come from topics, groups and leaders that have changed since."""
    return {item: cause for item, cause in error.errors.items() if not is_passing(cause)}


def is_passing(error: KafkaError) -> bool:
    """Whether it comes from what has changed since the topics were told."""
    cause = error.__cause__
    return error.code in _PASSING or (isinstance(cause, KafkaError) and cause.code in _PASSING)


def sentence_of(errors: Mapping[Any, KafkaError], what: str) -> str | None:
    """What is wrong with some brokers, partitions or groups; None if nothing is."""
    if not errors:
        return None
    reasons: dict[str, list[object]] = {}
    for item, cause in errors.items():
        reasons.setdefault(cause.message, []).append(item)
    told = []
    for reason, items in list(reasons.items())[:MAX_SHOWN_ERRORS]:
        more = f" and {len(items) - 1} more" if len(items) > 1 else ""
        told.append(f"{what} {_name(items[0])}{more}: {reason}")
    return "; ".join(told)


def _name(item: object) -> str:
    return "-".join(str(each) for each in item) if isinstance(item, tuple) else str(item)


class Rotation(Generic[K]):
    """Goes through all keys again and again, some at a time."""

    def __init__(self) -> None:
        self._left: Iterator[K] = iter(())
        self._is_begun = False

    def take(self, keys: Sequence[K], count: int) -> tuple[list[K], bool]:
        """The next of `keys`, and whether all have had their turn; those that appeared since come in the next turn."""
        if not self._is_begun:
            self._left = iter(list(keys))
            self._is_begun = True
        some = list(islice(self._left, count))
        if len(some) < count:
            self._is_begun = False
        return some, not self._is_begun

    def restart(self) -> None:
        """Begin with the first again."""
        self._is_begun = False
