"""What a console is told when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.doors.door import Door


@dataclass(frozen=True)
class ConsoleSettings:
    """`options` are Kafka's for the console's own clients, with dots."""

    options: Mapping[str, object]
    door: Door
    is_read_only: bool = False
    registry_url: str | None = None
    registry_options: Mapping[str, object] = field(default_factory=dict)
    internals_url: str | None = None
    """Where an Ottla broker tells what Kafka's protocol does not."""
