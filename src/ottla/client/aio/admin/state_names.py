"""Words that brokers write for states and types."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

Word = TypeVar("Word", bound=Enum)


def word_of(words: type[Word], text: str, unknown: Word) -> Word:
    """A state or type by the word that brokers write, whatever its case; a newer Kafka may have more."""
    return next((word for word in words if str(word.value).lower() == text.lower()), unknown)
