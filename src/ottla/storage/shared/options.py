"""What the shared engine's work is bounded by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SharedOptions:
    """The defaults are those of a broker; tests have others."""

    # Sessions.
    heartbeat_seconds: float = 1.0
    lease_slack_seconds: float = 0.5
    objects_reserved: int = 64
    # The catalog: how long a commit waits for the brokers that do not act by it yet.
    apply_seconds: float = 2.0
    # Claims.
    claims_per_call: int = 500
    claim_budget_seconds: float = 10.0
    # Writing.
    inline_linger_seconds: float = 0.002
    inline_flush_bytes: int = 128 * 1024
    inline_commit_bytes: int = 8 << 20
    inline_unsettled_bytes: int = 256 << 20  # while the object store is slow
    objects_linger_seconds: float = 0.05
    objects_flush_bytes: int = 4 << 20
    parallel_puts: int = 4
    hedge_factor: float = 3.0
    min_hedge_seconds: float = 0.2
    slow_put_seconds: float = 2.0
    write_budget_seconds: float = 120.0
    # Reading.
    tail_cache_bytes: int = 256 << 20
    cold_cache_bytes: int = 64 << 20  # half of it for batches, half for parts of objects
    read_ahead_bytes: int = 1 << 20
    parallel_reads: int = 8
    read_budget_seconds: float = 10.0
    # Pauses between tries of what is unavailable.
    first_retry_seconds: float = 0.05
    last_retry_seconds: float = 1.0
    # Housekeeping.
    unclaimed_fresh_seconds: float = 30.0
