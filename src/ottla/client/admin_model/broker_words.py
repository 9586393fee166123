"""States and types that brokers write as words."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class BrokerWord(StrEnum):
    """A word of a broker; every subclass has UNKNOWN, for words of newer brokers."""

    @classmethod
    def of(cls, text: str) -> Self:
        """The member for a word, whatever its case."""
        return next((word for word in cls if word.value.lower() == text.lower()), cls["UNKNOWN"])
