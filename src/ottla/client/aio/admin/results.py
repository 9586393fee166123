"""What came back for each of the things that a call named."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Generic, TypeVar

from ottla.client.topic_errors import topic_error_text
from ottla.errors import AbortableError, ErrorCode, KafkaError, PartialFailureError, exception_for

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ErrorMeaning(Enum):
    """What an error code means for the one thing that it is about."""

    FAIL = "it is the answer"
    AGAIN = "ask the same node again after a pause"
    MOVED = "find out again which node to ask"


Verdicts = Mapping[ErrorCode, ErrorMeaning]

ANYWHERE: Verdicts = MappingProxyType({})
AT_CONTROLLER: Verdicts = MappingProxyType(
    {
        ErrorCode.NOT_CONTROLLER: ErrorMeaning.MOVED,
        # A quota of controller mutations (KIP-599): the broker says how long to wait.
        ErrorCode.THROTTLING_QUOTA_EXCEEDED: ErrorMeaning.AGAIN,
    }
)
AT_COORDINATOR: Verdicts = MappingProxyType(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorMeaning.AGAIN,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorMeaning.MOVED,
        ErrorCode.NOT_COORDINATOR: ErrorMeaning.MOVED,
    }
)
AT_LEADER: Verdicts = MappingProxyType(
    {
        **{code: ErrorMeaning.AGAIN for code in ErrorCode if code.retriable},
        **dict.fromkeys(
            (
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.LEADER_NOT_AVAILABLE,
                ErrorCode.REPLICA_NOT_AVAILABLE,
                ErrorCode.BROKER_NOT_AVAILABLE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.KAFKA_STORAGE_ERROR,
                ErrorCode.LISTENER_NOT_FOUND,
                ErrorCode.FENCED_LEADER_EPOCH,
                ErrorCode.UNKNOWN_LEADER_EPOCH,
            ),
            ErrorMeaning.MOVED,
        ),
    }
)


class Answers(Generic[K, V]):
    """What one node answered, or what was found out, about each of some things."""

    def __init__(
        self, api: str, what: str, broker: str | None = None, verdicts: Verdicts = ANYWHERE
    ) -> None:
        self.asked: list[K] = []
        """What this node was asked about."""
        self.api = api
        self.broker = broker
        self.results: dict[K, V] = {}
        self.errors: dict[K, KafkaError] = {}
        self.again: dict[K, KafkaError] = {}
        self.moved: dict[K, KafkaError] = {}
        self.throttle_ms = 0
        self._what = what
        self._verdicts = verdicts

    def give(self, key: K, value: V) -> None:
        """Notes a result."""
        self.results[key] = value

    def take(self, key: K, value: V, code: int, message: str | None = None) -> None:
        """Notes a result, or what its error code means."""
        if code == ErrorCode.NONE:
            self.results[key] = value
        else:
            self.refuse(key, code, message)

    def refuse(self, key: K, code: int, message: str | None = None) -> None:
        """Notes an error code, by what it means."""
        self.judge(key, self.error(key, code, message))

    def judge(self, key: K, error: KafkaError) -> None:
        """Notes an error, by what its code means."""
        match self._verdicts.get(error.code, ErrorMeaning.FAIL):
            case ErrorMeaning.FAIL:
                self.errors[key] = error
            case ErrorMeaning.AGAIN:
                self.again[key] = error
            case ErrorMeaning.MOVED:
                self.moved[key] = error

    def refuse_all(self, keys: Iterable[K], code: int, message: str | None = None) -> None:
        """Notes an error that is about all of them."""
        for key in keys:
            self.refuse(key, code, message)

    def error(self, key: K, code: int, message: str | None = None) -> KafkaError:
        """The exception for a code, with what was asked of whom."""
        context: dict[str, object] = {"api": self.api}
        if self.broker is not None:
            context["broker"] = self.broker
        context[self._what] = key
        if message is None and self._what == "topic":
            message = topic_error_text(ErrorCode(code), str(key))
        return exception_for(code, message, **context)

    def mentions(self, key: K) -> bool:
        """Whether anything was said about it."""
        return any(key in part for part in (self.results, self.errors, self.again, self.moved))


def results_or_raise(results: Mapping[K, V], errors: Mapping[K, KafkaError], of: str) -> dict[K, V]:
    """The convention of all calls: everything succeeded, or an exception that has all there is to know."""
    if not errors:
        return dict(results)
    if len(results) + len(errors) == 1:
        raise next(iter(errors.values()))
    raise PartialFailureError(results, errors, of)


def unsupported(api: str, what: str, since: str) -> KafkaError:
    """The error of a call that the broker is too old for: only this call fails, the client goes on."""
    return AbortableError(
        ErrorCode.UNSUPPORTED_VERSION, f"{what} needs Kafka {since} or later.", {"api": api}
    )
