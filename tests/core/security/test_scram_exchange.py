"""The server's side of SCRAM against our client's, and against what no client should send."""

from __future__ import annotations

import base64
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.security.scram import scram, scram_with_token
from ottla.core.security.absent_credentials import absent_credential, salt_of_number
from ottla.core.security.sasl_outcomes import Authenticated, Challenge, Outcome, Rejected
from ottla.core.security.scram_credentials import (
    ScramCredential,
    credential_of_password,
    fits_password,
)
from ottla.core.security.scram_exchange import OTHER_AUTHORIZATION_ID, ScramExchange
from ottla.core.security.scram_formulas import (
    ScramMechanism,
    escaped_name,
    unescaped_name,
)
from ottla.errors import FatalError

SECRET = b"the broker's own secret"
SALT = b"a0b1c2d3e4f5g6h7i8j9k0l1m2"
PASSWORDS = ("pencil", "pässword ☃", " ", "=,\0")
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
mechanisms = st.sampled_from(ScramMechanism)


@cache
def credential(mechanism: ScramMechanism, password: str) -> ScramCredential:
    return credential_of_password(mechanism, password, SALT, 4096)


def exchange(mechanism: ScramMechanism, user: str, password: str) -> ScramExchange:
    """The exchange of a broker that knows one user."""

    def find(name: str) -> ScramCredential:
        known = credential(mechanism, password)
        absent = absent_credential(mechanism, name, SECRET, [known])
        return known if name == user else absent

    return ScramExchange(mechanism, find, "server-nonce")


def log_in(server: ScramExchange, mechanism: ScramMechanism, user: str, password: str) -> Outcome:
    client = scram(mechanism.sasl_name, user, password, "client-nonce")
    challenge = server.evaluate(client.first())
    assert isinstance(challenge, Challenge)
    proof = client.respond(challenge.data)
    assert proof is not None
    outcome = server.evaluate(proof)
    if isinstance(outcome, Authenticated):
        assert client.respond(outcome.data) is None
    return outcome


@given(mechanism=mechanisms, user=names, password=st.sampled_from(PASSWORDS))
def test_who_knows_the_password_is_authenticated_and_is_convinced(
    mechanism: ScramMechanism, user: str, password: str
) -> None:
    server = exchange(mechanism, user, password)
    outcome = log_in(server, mechanism, user, password)
    assert isinstance(outcome, Authenticated)
    assert outcome.user == user
    assert outcome.expires_at_ms is None


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize(("user", "password"), [("alice", "guess"), ("nobody", "pencil")])
def test_a_wrong_password_and_an_unknown_user_fail_alike(
    mechanism: ScramMechanism, user: str, password: str
) -> None:
    outcome = log_in(exchange(mechanism, "alice", "pencil"), mechanism, user, password)
    assert outcome == Rejected("the user does not exist, or the password is wrong")


def test_the_exchange_of_rfc_7677() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    known = credential_of_password(mechanism, "pencil", salt, 4096)
    server = ScramExchange(mechanism, lambda _name: known, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert server.evaluate(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ) == Authenticated("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@given(message=st.binary(max_size=200), rest=st.binary(max_size=200))
def test_garbage_is_rejected_without_a_hint(message: bytes, rest: bytes) -> None:
    server = exchange(ScramMechanism.SCRAM_SHA_256, "alice", "pencil")
    for text in (message, b"n,," + message, b"n,,n=alice,r=" + message):
        outcome = server.evaluate(text)
        if isinstance(outcome, Challenge):
            outcome = server.evaluate(b"c=biws,r=" + rest)
        assert isinstance(outcome, Rejected)
        assert outcome.message is None
        server = exchange(ScramMechanism.SCRAM_SHA_256, "alice", "pencil")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"y,,n=alice,r=nonce",
        b"p=tls-unique,,n=alice,r=nonce",
        b"n,,n=,r=nonce",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=nonce",
        b"n,,n=alice,r=no\x00nce",
        b"n,,n=alice,r=nonce,",
        b"n,,n=alice,r=nonce,tokenauth=true",
        b"n,,n=alice,r=" + b"x" * 20_000,
    ],
)
def test_a_first_message_that_is_not_valid_is_rejected(message: bytes) -> None:
    outcome = exchange(ScramMechanism.SCRAM_SHA_256, "alice", "pencil").evaluate(message)
    assert isinstance(outcome, Rejected)
    assert outcome.message is None


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: proof.replace(b"r=", b"r=x"),
        lambda proof: proof[:-1],
        lambda proof: proof + b",x=y",
        lambda proof: proof.replace(b"p=", b"p=AAAA"),
        lambda proof: proof[: proof.index(b"p=")] + b"p=",
        lambda proof: b"",
    ],
)
def test_a_last_message_that_is_not_valid_is_rejected(change: object) -> None:
    assert callable(change)
    mechanism = ScramMechanism.SCRAM_SHA_512
    server = exchange(mechanism, "alice", "pencil")
    client = scram(mechanism.sasl_name, "alice", "pencil", "client-nonce")
    challenge = server.evaluate(client.first())
    assert isinstance(challenge, Challenge)
    proof = client.respond(challenge.data)
    assert isinstance(server.evaluate(change(proof)), Rejected)


def test_a_repeated_nonce_is_refused_and_the_log_says_whose_mistake_it_is() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    for old, new, is_librdkafka in ((b"r=", b"r=client-nonce", True), (b"nonce", b"other", False)):
        server = exchange(mechanism, "alice", "pencil")
        client = scram(mechanism.sasl_name, "alice", "pencil", "client-nonce")
        challenge = server.evaluate(client.first())
        assert isinstance(challenge, Challenge)
        proof = client.respond(challenge.data)
        assert proof is not None
        outcome = server.evaluate(proof.replace(old, new))
        assert isinstance(outcome, Rejected)
        assert outcome.message is None
        assert ("librdkafka" in outcome.reason) is is_librdkafka


def test_a_client_acts_in_its_own_name_only() -> None:
    for authorization_id in (b"a=alice", b"a=other"):
        server = exchange(ScramMechanism.SCRAM_SHA_256, "alice", "pencil")
        outcome = server.evaluate(b"n," + authorization_id + b",n=alice,r=nonce")
        if authorization_id == b"a=alice":
            assert isinstance(outcome, Challenge)
        else:
            assert isinstance(outcome, Rejected)
            assert outcome.message == OTHER_AUTHORIZATION_ID


def test_delegation_tokens_are_rejected() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    client = scram_with_token(mechanism.sasl_name, "alice", "pencil", "nonce")
    outcome = exchange(mechanism, "alice", "pencil").evaluate(client.first())
    assert isinstance(outcome, Rejected)


def test_a_broker_without_the_credential_does_not_convince() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    known = credential(mechanism, "pencil")
    false = known._replace(server_key=bytes(32))
    server = ScramExchange(mechanism, lambda _name: false, "server-nonce")
    with pytest.raises(FatalError, match="could not prove"):
        log_in(server, mechanism, "alice", "pencil")


@given(name=names)
def test_names_survive_the_escapes(name: str) -> None:
    assert "," not in escaped_name(name)
    assert unescaped_name(escaped_name(name)) == name


@pytest.mark.parametrize("escaped", ["a=b", "=", "=3", "=2c", "=3D="])
def test_an_equals_sign_that_is_no_escape_is_refused(escaped: str) -> None:
    assert unescaped_name(escaped) is None


def test_credentials_say_nothing_of_their_secrets() -> None:
    known = credential(ScramMechanism.SCRAM_SHA_256, "pencil")
    assert repr(known) == "ScramCredential(iterations=4096)"
    assert ScramCredential.from_json(known.to_json()) == known
    assert fits_password(ScramMechanism.SCRAM_SHA_256, known, "pencil")
    assert not fits_password(ScramMechanism.SCRAM_SHA_256, known, "pencil ")


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("salt", [SALT, bytes(range(200, 216)), b"z" * 1024])
def test_what_is_made_up_for_an_unknown_user_has_the_shape_of_what_exists(
    mechanism: ScramMechanism, salt: bytes
) -> None:
    known = [credential_of_password(mechanism, "pencil", salt, 8192)]
    made_up = absent_credential(mechanism, "nobody", SECRET, known)
    assert made_up.iterations == 8192
    assert len(made_up.salt) == len(salt) or (
        salt == SALT and len(made_up.salt) in (23, 24, 25, 26)
    )
    assert made_up.salt.isalnum() == salt.isalnum()
    assert [len(made_up.stored_key), len(made_up.server_key)] == [mechanism.key_bytes] * 2
    assert absent_credential(mechanism, "nobody", SECRET, known) == made_up
    assert absent_credential(mechanism, "nobody else", SECRET, known).salt != made_up.salt
    assert absent_credential(mechanism, "nobody", b"another", known).salt != made_up.salt


def test_without_any_user_a_made_up_credential_looks_like_one_of_kafka() -> None:
    made_up = absent_credential(ScramMechanism.SCRAM_SHA_256, "nobody", SECRET, [])
    assert made_up.iterations == 4096
    assert made_up.salt.decode().isalnum()


def test_the_first_letter_of_a_salt_does_not_tell_who_exists() -> None:
    """A salt of Kafka's tools is a number of 130 bits: with 26 letters it begins with "1"."""
    known = [
        credential_of_password(ScramMechanism.SCRAM_SHA_256, "pencil", salt, 4096)
        for salt in (b"1" + b"z" * 25, b"y" * 25)
    ]
    salts = [
        absent_credential(ScramMechanism.SCRAM_SHA_256, f"user-{number}", SECRET, known).salt
        for number in range(300)
    ]
    assert all(int(salt, 36) < 1 << 130 for salt in salts)
    firsts = {(len(salt), salt[:1]) for salt in salts}
    assert {first for length, first in firsts if length == 26} == {b"1"}
    assert len({first for length, first in firsts if length == 25}) > 20
    assert all(salt_of_number(int(salt, 36)) == salt for salt in salts)
