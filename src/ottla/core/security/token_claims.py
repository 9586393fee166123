"""Which claims of a signed JWT are accepted, with Kafka's rules (KIP-768)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.core.security.sasl_outcomes import Rejected


class TokenRules(NamedTuple):
    """What the options of a listener say about tokens."""

    issuer: str | None
    audiences: tuple[str, ...]
    clock_skew_seconds: int
    subject_claim: str
    scope_claim: str


class AcceptedToken(NamedTuple):
    """The user of a token, and when it ends."""

    user: str
    expires_at_ms: int
    scopes: tuple[str, ...]


def check_claims(
    rules: TokenRules, claims: Mapping[str, Any], now_ms: int
) -> AcceptedToken | Rejected:
    """Judges the claims of a token whose signature is valid."""
    expires_at_ms = _milliseconds(claims.get("exp"))
    issued_at_ms = _milliseconds(claims.get("iat"))
    if expires_at_ms is None or expires_at_ms < 0:
        return Rejected("the token has no valid expiration time (exp)")
    if issued_at_ms is None or issued_at_ms < 0:
        return Rejected("the token has no valid time of issue (iat)")
    skew_ms = 1000 * rules.clock_skew_seconds
    if now_ms - skew_ms >= expires_at_ms:
        return Rejected(f"the token expired {(now_ms - expires_at_ms) // 1000} s ago")
    if expires_at_ms < issued_at_ms:
        return Rejected("the token expires before it was issued")
    problem = _check_begin(claims, now_ms + skew_ms, expires_at_ms) or _check_sides(rules, claims)
    if problem is not None:
        return Rejected(problem)
    user = claims.get(rules.subject_claim)
    if not isinstance(user, str) or not user.strip():
        return Rejected(f"the token has no valid claim {rules.subject_claim}")
    scopes = _scopes(claims.get(rules.scope_claim))
    if scopes is None:
        return Rejected(f"the token has no valid claim {rules.scope_claim}")
    return AcceptedToken(user.strip(), expires_at_ms, scopes)


def _check_begin(claims: Mapping[str, Any], latest_now_ms: int, expires_at_ms: int) -> str | None:
    if "nbf" not in claims:
        return None
    begins_at_ms = _milliseconds(claims["nbf"])
    if begins_at_ms is None:
        return "the token has no valid begin (nbf)"
    if latest_now_ms < begins_at_ms:
        return "the token is not valid yet (nbf)"
    if expires_at_ms < begins_at_ms:
        return "the token expires before it begins (nbf)"
    return None


def _check_sides(rules: TokenRules, claims: Mapping[str, Any]) -> str | None:
    """Who made the token, and for whom."""
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        return "the token's issuer (iss) is not sasl.oauthbearer.expected.issuer"
    audience = claims.get("aud")
    if audience is None:
        return "the token has no audience (aud)" if rules.audiences else None
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, Sequence) or not any(
        each in rules.audiences for each in audiences
    ):
        # As in Kafka, a token for some audience is refused also if none is expected.
        return "the token's audience (aud) is not in sasl.oauthbearer.expected.audience"
    return None


def _scopes(value: Any) -> tuple[str, ...] | None:
    scopes = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if not all(isinstance(scope, str) and scope.strip() for scope in scopes):
        return None
    trimmed = tuple(scope.strip() for scope in scopes)
    return trimmed if len(dict.fromkeys(trimmed)) == len(trimmed) else None


def _milliseconds(seconds: Any) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    # The bound keeps infinities out: the year 33658.
    return int(seconds * 1000) if -1e12 < seconds < 1e12 else None
