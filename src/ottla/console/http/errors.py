"""Errors of the JSON API: a status, a sentence, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from ottla.errors import (
    ConfigError,
    ErrorCode,
    KafkaError,
    OttlaError,
    PartialFailureError,
    RetriableError,
    TimedOutError,
)

_STATUS_OF_CODE: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID: HTTPStatus.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.TOPIC_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    ErrorCode.NON_EMPTY_GROUP: HTTPStatus.CONFLICT,
    ErrorCode.UNSUPPORTED_VERSION: HTTPStatus.NOT_IMPLEMENTED,
}


class ApiError(OttlaError):
    """A request that is answered with an error; `advice` says what the user can do."""

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        advice: str | None = None,
        *,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.advice = advice
        self.retry_after_seconds = retry_after_seconds


class MethodError(ApiError):
    """There is such a path, but not with this method."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed: Final = sorted(allowed)
        methods = " and ".join(self.allowed)
        super().__init__(HTTPStatus.METHOD_NOT_ALLOWED, f"this path has only {methods}")


def bad_request(message: str, advice: str | None = None) -> ApiError:
    """What the client sent makes no sense."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, advice)


def not_found(message: str, advice: str | None = None) -> ApiError:
    """What the path names does not exist."""
    return ApiError(HTTPStatus.NOT_FOUND, message, advice)


def api_error_of(error: OttlaError) -> ApiError:
    """The answer to an error of the client or of the cluster."""
    match error:
        case ApiError():
            return error
        case PartialFailureError() if len(error.errors) == 1:
            ((subject, cause),) = error.errors.items()
            found = api_error_of(cause)
            return ApiError(found.status, f"{subject}: {found.message}", found.advice)
        case TimedOutError():
            return ApiError(HTTPStatus.GATEWAY_TIMEOUT, str(error), "is the cluster well?")
        case KafkaError() if error.code.name.endswith("AUTHORIZATION_FAILED"):
            return ApiError(HTTPStatus.FORBIDDEN, str(error), "an ACL of the cluster is missing")
        case KafkaError() if error.code in _STATUS_OF_CODE:
            return ApiError(_STATUS_OF_CODE[error.code], str(error))
        case RetriableError():
            return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), "try again")
        case KafkaError() | ConfigError():
            return ApiError(HTTPStatus.BAD_REQUEST, str(error))
    return ApiError(HTTPStatus.BAD_GATEWAY, str(error))
