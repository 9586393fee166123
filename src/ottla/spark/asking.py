"""Questions about several things at once: what to make of answers that have only some of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from ottla.client.admin_model import TopicDescription
from ottla.client.blocking.admin import Admin
from ottla.errors import ErrorCode, KafkaError, PartialFailureError, RetriableError

log = logging.getLogger("ottla.spark")

# A broker that has just begun, or is slow to learn, does not know all topics: one answer is not believed.
LOOKS: Final = 3
LOOK_PAUSE_SECONDS: Final = 0.1
_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

T = TypeVar("T")


def whole(question: Callable[[], T]) -> T:
    """The answer; one that lacks parts which may come later is as retriable as they are."""
    try:
        return question()
    except PartialFailureError as error:
        errors = list(error.errors.values())
        if all(isinstance(each, RetriableError) for each in errors):
            raise errors[0] from error
        raise


def existing(admin: Admin, names: Iterable[str]) -> Mapping[str, TopicDescription]:
    """Those of the topics that exist."""
    names = list(names)
    if not names:
        return {}
    try:
        return admin.describe_topics(names)
    except PartialFailureError as error:
        refused = [each for each in error.errors.values() if each.code not in _ABSENT]
        if refused:
            # One that cannot pass says more than one that can.
            raise next(
                (e for e in refused if not isinstance(e, RetriableError)), refused[0]
            ) from error
        found: Mapping[str, TopicDescription] = error.results
        return found
    except KafkaError as error:
        if error.code not in _ABSENT:
            raise
        return {}


def absent(admin: Admin, names: Iterable[str]) -> list[str]:
    """Those of the topics that do not exist, as several answers say."""
    left = sorted(set(names))
    for look in range(LOOKS):
        if look:
            time.sleep(LOOK_PAUSE_SECONDS)
        found = existing(admin, left)
        left = [each for each in left if each not in found]
        if not left:
            break
    return left
