"""Which subjects a user may see: those of topics that it may not describe do not exist for it.

A registry has no ACLs of Kafka's, and the names of subjects tell names of topics. By Confluent's strategies a subject
is called after its topic: `orders-value` and `orders-key`, or `orders-com.acme.Order`. The topic of a subject is the
longest name of a topic of the cluster that its own name starts with, followed by `-`. If the user may not describe this
topic, the subject is hidden from it, with all that it holds. Subjects that are called after no topic of the cluster
(`com.acme.Order`, or those of a topic that was deleted) are seen by every user. A schema by its id is seen by who sees
one of its subjects; only who sees everything sees one that has none any more.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final, Literal, NamedTuple

from ottla.console.access.visible import Visible

_PARTS: Final[Mapping[str, Literal["key", "value"]]] = {"key": "key", "value": "value"}


class SubjectTopic(NamedTuple):
    """The topic that a subject is called after."""

    topic: str
    part: Literal["key", "value"] | None
    """None if the subject is that of one type of record in the topic."""


def topic_of_subject(subject: str, topics: Container[str]) -> SubjectTopic | None:
    """The topic that a subject is called after, among those that exist."""
    end = len(subject)
    while (end := subject.rfind("-", 0, end)) > 0:
        if subject[:end] in topics:
            return SubjectTopic(subject[:end], _PARTS.get(subject[end + 1 :]))
    return None


def sees_subject(visible: Visible, subject: str) -> bool:
    """Whether a user may see a subject."""
    if visible.is_everything:
        return True
    found = topic_of_subject(_without_context(subject), visible.whole.topics)
    return found is None or visible.sees_topic(found.topic)


def used_by(subject: str, topics: Mapping[str, object]) -> SubjectTopic | None:
    """The topic whose records have this subject, by its name."""
    return topic_of_subject(_without_context(subject), topics)


def _without_context(subject: str) -> str:
    """The name within its context: `:.production:orders-value` is called after `orders`, too."""
    if subject.startswith(":."):
        return subject[2:].partition(":")[2] or subject
    return subject
