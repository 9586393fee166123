"""Timestamps of records: the default, and a warning for those that seem to be in seconds."""

from __future__ import annotations

import logging
import time
from typing import Final

log = logging.getLogger("ottla.client")

# In seconds this is from 2001 to 5138, in milliseconds the beginning of 1970 to 1973.
_SECONDS_BEGIN: Final = 1_000_000_000
SECONDS_END: Final = 100_000_000_000


def current_timestamp_ms() -> int:
    """The timestamp of a record without one."""
    return time.time_ns() // 1_000_000


class SecondsWatch:
    """Warns once where a timestamp in milliseconds is probably one in seconds.

    For brokers such a record is from 1970, and retention deletes it with the next segment.
    """

    def __init__(self) -> None:
        self._has_warned = False

    def look(self, topic: str, timestamp_ms: int) -> None:
        """Look at the timestamp of a record."""
        if self._has_warned or not _SECONDS_BEGIN <= timestamp_ms < SECONDS_END:
            return
        self._has_warned = True
        log.warning(
            "a record for %s has timestamp_ms=%d, which is in %d: if these are seconds since 1970, "
            "multiply them by 1000",
            topic,
            timestamp_ms,
            time.gmtime(timestamp_ms // 1000).tm_year,
        )
