"""Errors of topics, with the reason if the name itself is invalid."""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError, exception_for
from ottla.model import topic_name_problem


def topic_error_text(code: ErrorCode, topic: str) -> str:
    """The text of a topic's error code."""
    problem = topic_name_problem(topic) if code is ErrorCode.INVALID_TOPIC_EXCEPTION else None
    return code.text if problem is None else f"{problem[:1].upper()}{problem[1:]}."


def topic_error(code: ErrorCode, topic: str) -> KafkaError:
    """The exception for a topic's error in the metadata."""
    return exception_for(code, topic_error_text(code, topic), api="Metadata", topic=topic)
