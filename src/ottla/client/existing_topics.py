"""Describing topics of which some may not exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.client.admin_model.topics import TopicDescription
from ottla.errors import ErrorCode, KafkaError, PartialFailureError, RetriableError

if TYPE_CHECKING:
    from ottla.client.blocking.admin import Admin

_ABSENT: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def describe_existing_topics(admin: Admin, names: Iterable[str]) -> Mapping[str, TopicDescription]:
    """The descriptions of those of the topics that exist."""
    names = list(names)
    if not names:
        return {}
    try:
        return admin.describe_topics(names)
    except PartialFailureError as error:
        refused = [each for each in error.errors.values() if each.code not in _ABSENT]
        if refused:
            # An error that is not retriable is more useful than one that may be temporary.
            raise next(
                (e for e in refused if not isinstance(e, RetriableError)), refused[0]
            ) from error
        found: Mapping[str, TopicDescription] = error.results
        return found
    except KafkaError as error:
        if error.code not in _ABSENT:
            raise
        return {}
