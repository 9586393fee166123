"""What a broker says of a topic by a code alone, with the reason where the name itself shows it."""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError, exception_for
from ottla.model import topic_name_problem


def topic_error_text(code: ErrorCode, topic: str) -> str:
    """What is wrong with a topic."""
    problem = topic_name_problem(topic) if code is ErrorCode.INVALID_TOPIC_EXCEPTION else None
    return code.text if problem is None else f"{problem[:1].upper()}{problem[1:]}."


def topic_error(code: ErrorCode, topic: str) -> KafkaError:
    """The exception for what the cluster's metadata says of a topic."""
    return exception_for(code, topic_error_text(code, topic), api="Metadata", topic=topic)
