"""Checks JWTs: the signature by a library (ADR 0052), the claims by `core.security.token_claims`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.security.token_keys import Jwk, TokenKeys
from ottla.core.security.sasl_outcomes import Rejected
from ottla.core.security.token_claims import AcceptedToken, TokenRules, check_claims
from ottla.errors import ConfigError
from ottla.ports import Clock

if TYPE_CHECKING:
    from joserfc.jws import JWSRegistry

# By the type of a key: one for signatures of one kind never serves for another, and "none" is never accepted.
_ALGORITHMS: Final[Mapping[tuple[str, str | None], tuple[str, ...]]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("Ed25519", "EdDSA"),
    ("oct", None): ("HS256", "HS384", "HS512"),
}
_ACCEPTED: Final = frozenset(chain.from_iterable(_ALGORITHMS.values()))
# How many keys without an id a signature is tried with.
_MAX_TRIES: Final = 8


def check_library() -> None:
    """Refuses OAUTHBEARER where the library is not installed."""
    try:
        import joserfc  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "sasl.enabled.mechanisms: OAUTHBEARER needs a library: pip install 'ottla[security]'"
        ) from error


class TokenVerifier:
    """Checks the tokens of a listener."""

    def __init__(
        self, keys: TokenKeys, rules: TokenRules, clock: Clock, executor: Executor
    ) -> None:
        self._keys = keys
        self._rules = rules
        self._clock = clock
        self._executor = executor

    async def verify(self, token: str) -> AcceptedToken | Rejected:
        loop = asyncio.get_running_loop()
        keys = self._keys.keys
        claims = await loop.run_in_executor(self._executor, signed_claims, token, keys)
        if isinstance(claims, UnknownKey):
            self._keys.ask_again()
            return Rejected("the token's key (kid) is not in the JWKS; the JWKS is fetched again")
        if isinstance(claims, Rejected):
            return claims
        return check_claims(self._rules, claims, self._clock.now_ms())


class UnknownKey:
    """A token was signed with a key that is not known."""


def signed_claims(token: str, keys: Sequence[Jwk]) -> dict[str, Any] | Rejected | UnknownKey:
    """The claims of a token with a valid signature."""
    from joserfc import jws
    from joserfc.errors import JoseError

    try:
        header = jws.extract_compact(token.encode(), registry=_registry()).headers()
    except (JoseError, ValueError, RecursionError):
        return Rejected("it is not a signed token (JWS)")
    algorithm, key_id = header.get("alg"), header.get("kid")
    suitable = [key for key in keys if algorithm in _algorithms_of(key)]
    if key_id is not None:
        suitable = [key for key in suitable if key.get("kid") == key_id]
    if not suitable:
        if key_id is not None and not any(key.get("kid") == key_id for key in keys):
            return UnknownKey()
        return Rejected("no key of the JWKS fits the token's algorithm (alg)")
    for key in suitable[:_MAX_TRIES]:
        claims = _claims_if_valid(token, key, str(algorithm))
        if claims is not None:
            return claims
    return Rejected("the token's signature is not valid")


def _algorithms_of(key: Jwk) -> tuple[str, ...]:
    """The algorithms of signatures by a key."""
    if key.get("use", "sig") != "sig":
        return ()
    kind = key.get("kty")
    curve = key.get("crv") if kind in ("EC", "OKP") else None
    if not isinstance(kind, str) or not (curve is None or isinstance(curve, str)):
        return ()
    algorithms = _ALGORITHMS.get((kind, curve), ())
    only = key.get("alg")
    return algorithms if only is None else tuple(each for each in algorithms if each == only)


@cache
def _registry() -> JWSRegistry:
    """The library's rules, but that a header may be long and have names that it does not know."""
    from joserfc.errors import UnsupportedAlgorithmError
    from joserfc.jws import JWSRegistry

    class TokenRegistry(JWSRegistry):
        max_header_length = 16 << 10

        def get_alg(self, name: str) -> Any:
            # Without the library's warning: EdDSA is the old name of what Ed25519 keys do, and common.
            if name not in _ACCEPTED:
                raise UnsupportedAlgorithmError(f"Algorithm of '{name}' is not allowed")
            return self.algorithms[name]

    return TokenRegistry(strict_check_header=False)


def _claims_if_valid(token: str, key: Jwk, algorithm: str) -> dict[str, Any] | None:
    from joserfc import jwk, jwt
    from joserfc.errors import JoseError

    try:
        found = jwt.decode(
            token, jwk.import_key(dict(key)), algorithms=[algorithm], registry=_registry()
        )
    except (JoseError, ValueError, TypeError, RecursionError):
        return None
    return found.claims
