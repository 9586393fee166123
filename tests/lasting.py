"""Options for brokers that serve a whole test session.

What a broker does every few minutes meets whichever test runs just then: by Kafka's defaults it deletes records with
old timestamps after five, and groups that have neither members nor offsets after ten.
"""

from __future__ import annotations

DAY_MS = 24 * 3600 * 1000
LASTING: dict[str, object] = {
    "log.retention.check.interval.ms": DAY_MS,
    "offsets.retention.check.interval.ms": DAY_MS,
}
