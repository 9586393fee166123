"""The messages of PLAIN and OAUTHBEARER, which claims of tokens are accepted, and how long sessions last."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.security.mechanisms import OAuthBearer, Plain, Token
from ottla.core.security import bearer_message, plain_message
from ottla.core.security.bearer_message import BearerMessage
from ottla.core.security.plain_message import PlainMessage
from ottla.core.security.sasl_outcomes import Rejected
from ottla.core.security.session_lifetime import session_lifetime_ms
from ottla.core.security.token_claims import AcceptedToken, TokenRules, check_claims

NOW_MS = 1_700_000_000_000
NOW = NOW_MS // 1000
RULES = TokenRules(None, (), 30, "sub", "scope")
words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(user=words, password=words)
def test_plain_says_name_and_password(user: str, password: str) -> None:
    found = plain_message.parse(Plain(user, password).first())
    assert found == PlainMessage("", user, password)
    assert repr(found) == f"PlainMessage(user={user!r})"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
    ],
)
def test_plain_refuses_with_the_words_of_kafka(message: bytes, text: str) -> None:
    assert plain_message.parse(message) == Rejected(text, text)


@given(message=st.binary(max_size=100))
def test_garbage_is_no_message(message: bytes) -> None:
    assert isinstance(plain_message.parse(message), PlainMessage | Rejected)
    assert isinstance(bearer_message.parse(message), Rejected)
    assert isinstance(bearer_message.parse(b"n,,\x01auth=" + message), BearerMessage | Rejected)


def test_a_bearer_message_has_a_token_and_extensions() -> None:
    sent = OAuthBearer(Token("abc.def-_~+/=", {"logicalCluster": "lkc 1"})).first()
    found = bearer_message.parse(sent)
    assert found == BearerMessage("abc.def-_~+/=", "")
    assert "abc" not in repr(found)
    found = bearer_message.parse(b"n,a=bob=2C,\x01auth=bEaReR  t\x01\x01")
    assert found == BearerMessage("t", "bob=2C")


@pytest.mark.parametrize(
    "message",
    [
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01other=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"n,,auth=Bearer a\x01\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer a\x01x1=y\x01\x01",
    ],
)
def test_a_bearer_message_that_is_not_valid_is_rejected_without_a_hint(message: bytes) -> None:
    found = bearer_message.parse(message)
    assert isinstance(found, Rejected)
    assert found.message is None


def claims(**changes: Any) -> dict[str, Any]:
    made = {"sub": "alice", "iat": NOW - 10, "exp": NOW + 60} | changes
    return {name: value for name, value in made.items() if value is not ...}


@pytest.mark.parametrize(
    ("rules", "changes"),
    [
        (RULES, {}),
        (RULES, {"sub": " alice "}),
        (RULES, {"exp": NOW - 29, "iat": NOW - 100}),
        (RULES, {"nbf": NOW + 30}),
        (RULES, {"scope": ["a", "b"]}),
        (RULES, {"scope": "a b"}),
        (RULES._replace(subject_claim="email"), {"sub": ..., "email": "alice"}),
        (RULES._replace(issuer="https://i"), {"iss": "https://i"}),
        (RULES._replace(audiences=("k", "l")), {"aud": "l"}),
        (RULES._replace(audiences=("k", "l")), {"aud": ["m", "k"]}),
    ],
)
def test_claims_that_fit_are_accepted(rules: TokenRules, changes: dict[str, Any]) -> None:
    accepted = check_claims(rules, claims(**changes), NOW_MS)
    assert isinstance(accepted, AcceptedToken), accepted
    assert accepted.user == "alice"
    assert accepted.expires_at_ms == claims(**changes)["exp"] * 1000


@pytest.mark.parametrize(
    ("rules", "changes", "reason"),
    [
        (RULES, {"exp": ...}, "no valid expiration"),
        (RULES, {"exp": "tomorrow"}, "no valid expiration"),
        (RULES, {"exp": True}, "no valid expiration"),
        (RULES, {"exp": float("inf")}, "no valid expiration"),
        (RULES, {"exp": float("nan")}, "no valid expiration"),
        (RULES, {"exp": -1}, "no valid expiration"),
        (RULES, {"iat": ...}, "no valid time of issue"),
        (RULES, {"exp": NOW - 30}, "expired 30 s ago"),
        (RULES, {"iat": NOW + 61}, "expires before it was issued"),
        (RULES, {"nbf": NOW + 31}, "not valid yet"),
        (RULES, {"nbf": "x"}, "no valid begin"),
        (RULES, {"nbf": NOW - 40, "exp": NOW - 20, "iat": NOW - 41}, None),
        (RULES, {"sub": ...}, "no valid claim sub"),
        (RULES, {"sub": "  "}, "no valid claim sub"),
        (RULES, {"sub": 7}, "no valid claim sub"),
        (RULES, {"scope": [""]}, "no valid claim scope"),
        (RULES, {"scope": ["a", "a "]}, "no valid claim scope"),
        (RULES, {"scope": [1]}, "no valid claim scope"),
        (RULES, {"aud": "kafka"}, "expected.audience"),
        (RULES._replace(audiences=("k",)), {}, "no audience"),
        (RULES._replace(audiences=("k",)), {"aud": ["K"]}, "expected.audience"),
        (RULES._replace(audiences=("k",)), {"aud": 3}, "expected.audience"),
        (RULES._replace(issuer="https://i"), {}, "expected.issuer"),
        (RULES._replace(issuer="https://i"), {"iss": "https://j"}, "expected.issuer"),
    ],
)
def test_claims_that_do_not_fit_are_rejected(
    rules: TokenRules, changes: dict[str, Any], reason: str | None
) -> None:
    found = check_claims(rules, claims(**changes), NOW_MS)
    if reason is None:
        assert isinstance(found, AcceptedToken)
    else:
        assert isinstance(found, Rejected)
        assert reason in found.reason
        assert found.message is None


@given(
    st.dictionaries(
        st.sampled_from(["exp", "iat", "nbf", "aud", "iss", "sub", "scope"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=4,
        ),
    )
)
def test_any_claims_are_judged(found: dict[str, Any]) -> None:
    rules = RULES._replace(issuer="i", audiences=("a",))
    assert isinstance(check_claims(rules, claims(**found), NOW_MS), AcceptedToken | Rejected)


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_at_ms", "lifetime_ms"),
    [
        (0, None, None),
        (5000, None, 5000),
        (0, NOW_MS + 700, 700),
        (5000, NOW_MS + 700, 700),
        (500, NOW_MS + 700, 500),
        (0, NOW_MS - 10, 0),
    ],
)
def test_a_session_ends_with_the_credential_or_with_its_longest_time(
    max_reauth_ms: int, expires_at_ms: int | None, lifetime_ms: int | None
) -> None:
    assert session_lifetime_ms(max_reauth_ms, expires_at_ms, NOW_MS) == lifetime_ms
