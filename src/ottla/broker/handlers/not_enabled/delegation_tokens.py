"""What all APIs of delegation tokens refuse: Kafka without a key for tokens gives and knows none."""

from __future__ import annotations

from ottla.access import ANONYMOUS
from ottla.broker.security.caller import Caller
from ottla.errors import ErrorCode


def tokens_error(caller: Caller) -> ErrorCode:
    """The first question is whether the caller has authenticated itself."""
    if caller.principal == ANONYMOUS:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def timestamp_of(error: ErrorCode) -> int:
    """What an answer with this error has for each timestamp."""
    return 0 if error is ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED else -1
