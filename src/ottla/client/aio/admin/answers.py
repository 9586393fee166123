"""The outcomes of a call, one for each topic, group, partition … that it is about; and what error codes mean there."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Generic, TypeVar

from ottla.client.topic_errors import topic_error_text
from ottla.errors import AbortableError, ErrorCode, KafkaError, PartialFailureError, exception_for

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ErrorMeaning(Enum):
    """The meaning of an error code for its topic, group or partition."""

    FAIL = "the call failed"
    RETRY = "ask the same node again after a pause"
    MOVED = "look up again which node to ask"


ErrorMeanings = Mapping[ErrorCode, ErrorMeaning]

ANYWHERE: ErrorMeanings = MappingProxyType({})
AT_CONTROLLER: ErrorMeanings = MappingProxyType(
    {
        ErrorCode.NOT_CONTROLLER: ErrorMeaning.MOVED,
        # A quota of controller mutations (KIP-599): the broker says how long to wait.
        ErrorCode.THROTTLING_QUOTA_EXCEEDED: ErrorMeaning.RETRY,
    }
)
AT_COORDINATOR: ErrorMeanings = MappingProxyType(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorMeaning.RETRY,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorMeaning.MOVED,
        ErrorCode.NOT_COORDINATOR: ErrorMeaning.MOVED,
    }
)
AT_LEADER: ErrorMeanings = MappingProxyType(
    {
        **{code: ErrorMeaning.RETRY for code in ErrorCode if code.retriable},
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
    """The outcomes of one request, by key: results, errors, and keys that have to be asked for again."""

    def __init__(
        self, api: str, what: str, broker: str | None = None, meanings: ErrorMeanings = ANYWHERE
    ) -> None:
        self.asked: list[K] = []
        """The keys of the request."""
        self.api = api
        self.broker = broker
        self.results: dict[K, V] = {}
        self.errors: dict[K, KafkaError] = {}
        self.to_retry: dict[K, KafkaError] = {}
        self.moved: dict[K, KafkaError] = {}
        self.throttle_ms = 0
        self._what = what
        self._meanings = meanings

    def for_api(self, api: str) -> Answers[K, V]:
        """Outcomes of another API that the same node is asked with, for the same keys."""
        return Answers(api, self._what, self.broker, self._meanings)

    def add_all(self, part: Answers[K, V]) -> None:
        """Add the outcomes of another request."""
        self.results |= part.results
        self.errors |= part.errors
        self.to_retry |= part.to_retry
        self.moved |= part.moved

    def succeed(self, key: K, value: V) -> None:
        """Add a result."""
        self.results[key] = value

    def complete(self, key: K, value: V, code: int, message: str | None = None) -> None:
        """Add a result, or an error if there is an error code."""
        if code == ErrorCode.NONE:
            self.results[key] = value
        else:
            self.fail(key, code, message)

    def fail(self, key: K, code: int, message: str | None = None) -> None:
        """Add an error: it is final, or to be retried, by the meaning of its code."""
        error = self.error(key, code, message)
        match self._meanings.get(error.code, ErrorMeaning.FAIL):
            case ErrorMeaning.FAIL:
                self.errors[key] = error
            case ErrorMeaning.RETRY:
                self.to_retry[key] = error
            case ErrorMeaning.MOVED:
                self.moved[key] = error

    def error(self, key: K, code: int, message: str | None = None) -> KafkaError:
        """The exception for an error code, with the API, the broker and the key."""
        context: dict[str, object] = {"api": self.api}
        if self.broker is not None:
            context["broker"] = self.broker
        context[self._what] = key
        if message is None and self._what == "topic":
            message = topic_error_text(ErrorCode(code), str(key))
        return exception_for(code, message, **context)

    def mentions(self, key: K) -> bool:
        """Whether the key has an outcome."""
        outcomes = (self.results, self.errors, self.to_retry, self.moved)
        return any(key in each for each in outcomes)


def results_or_raise(results: Mapping[K, V], errors: Mapping[K, KafkaError], of: str) -> dict[K, V]:
    """The results if all keys succeeded; otherwise the error of the only key, or a PartialFailureError."""
    if not errors:
        return dict(results)
    if len(results) + len(errors) == 1:
        raise next(iter(errors.values()))
    raise PartialFailureError(results, errors, of)


def unsupported_error(api: str, what: str, since: str) -> KafkaError:
    """The error of a call that needs a newer broker; the client can still be used."""
    return AbortableError(
        ErrorCode.UNSUPPORTED_VERSION, f"{what} needs Kafka {since} or later.", {"api": api}
    )
