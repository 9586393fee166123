"""How long an authenticated connection may be used before it has to authenticate again (KIP-368)."""

from __future__ import annotations


def session_lifetime_ms(max_reauth_ms: int, expires_at_ms: int | None, now_ms: int) -> int | None:
    """The time until the session ends, by `connections.max.reauth.ms` and by the credential; None if it does not."""
    limits = []
    if max_reauth_ms > 0:
        limits.append(max_reauth_ms)
    if expires_at_ms is not None:
        limits.append(max(0, expires_at_ms - now_ms))
    return min(limits, default=None)
