"""Requests to a cluster whose answers may be incomplete: partial failures, and brokers that do not know a topic yet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.client.blocking.admin import Admin
from ottla.client.existing_topics import describe_existing_topics
from ottla.errors import PartialFailureError, RetriableError

# A broker that has just started may not know all topics, so one answer does not prove that a topic is missing.
LOOKUP_ATTEMPTS: Final = 3
LOOKUP_PAUSE_SECONDS: Final = 0.1

T = TypeVar("T")


def retriable_as_a_whole(request: Callable[[], T]) -> T:
    """The response; a partial failure whose parts are all retriable is raised as a RetriableError."""
    try:
        return request()
    except PartialFailureError as error:
        errors = list(error.errors.values())
        if all(isinstance(each, RetriableError) for each in errors):
            raise errors[0] from error
        raise


def missing_topics(admin: Admin, names: Iterable[str]) -> list[str]:
    """Those of the topics that do not exist, according to several answers."""
    left = sorted(set(names))
    for attempt in range(LOOKUP_ATTEMPTS):
        if attempt:
            time.sleep(LOOKUP_PAUSE_SECONDS)
        found = describe_existing_topics(admin, left)
        left = [each for each in left if each not in found]
        if not left:
            break
    return left
