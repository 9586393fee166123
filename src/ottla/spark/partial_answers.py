"""Questions about several things at once: what to make of answers that have only some of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from ottla.client.blocking.admin import Admin
from ottla.client.existing_topics import existing
from ottla.errors import PartialFailureError, RetriableError

log = logging.getLogger("ottla.spark")

# A broker that has just begun, or is slow to learn, does not know all topics: one answer is not believed.
LOOKS: Final = 3
LOOK_PAUSE_SECONDS: Final = 0.1

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
