"""The real clock and real random identifiers."""

from __future__ import annotations

import random
import time
import uuid


class SystemClock:
    """Wall-clock time, and how it passes."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_seconds(self) -> float:
        return time.monotonic()


class SystemIds:
    """Random identifiers."""

    def topic_id(self) -> uuid.UUID:
        while True:
            # Kafka's own ids never begin with a dash in their text form, so that they can be typed as arguments.
            made = uuid.uuid4()
            if made.bytes[0] >> 2 != 0b111110:
                return made

    def member_id(self) -> uuid.UUID:
        return uuid.uuid4()

    def session_id(self) -> int:
        return random.randint(1, 0x7FFFFFFF)
