"""Logins: who gets in and as whom, what an unauthenticated client may do, and what it can find out."""

from __future__ import annotations

import io
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwk
from tests.broker.exposition_reader import read
from tests.broker.security.handshakes import CLOSED, connected, plain, scram_of
from tests.broker.security.sasl_stage import (
    ALICE,
    MECHANISMS,
    PASSWORD,
    SESSION_MS,
    USERS,
    Stage,
    sasl_stage,
)
from tests.client.security.certificates import Certificates
from tests.waiting import in_time

import ottla
from ottla.access import ANONYMOUS, Principal
from ottla.broker.runtime import RunningBroker
from ottla.broker.security import pending_logins, sasl_gate, token_keys
from ottla.broker.security.first_users import ensure_users
from ottla.broker.security.token_verifier import UnknownKey, signed_claims
from ottla.client.raw import RawConnection
from ottla.core.security import plain_message
from ottla.core.security.sasl_outcomes import Rejected
from ottla.errors import FatalError
from ottla.failed_logins import FailedLogins, address_block
from ottla.testing import Broker
from ottla.wire.framing import frame_request
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

WAIT_SECONDS = 10.0
SHA_256 = "SCRAM-SHA-256"


@pytest.fixture
def stage(shared_stage: Stage) -> Stage:
    return shared_stage


# Who gets in.


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", USERS)
def test_a_client_is_the_user_that_it_logs_in_as(stage: Stage, mechanism: str, user: str) -> None:
    with stage.admin("SASL", **stage.options(mechanism, user, USERS[user])) as admin:
        admin.list_topics()
        assert set(stage.principals("SASL")) == {Principal.user(user)}


def test_a_listener_without_sasl_has_no_logins(stage: Stage) -> None:
    with stage.admin("OPEN") as admin:
        admin.list_topics()
        assert set(stage.principals("OPEN")) == {ANONYMOUS}


def test_plain_knows_the_users_of_its_login_module(stage: Stage) -> None:
    listed = stage.options("PLAIN", "listed", "listed-secret")
    with stage.admin("SASL", **listed) as admin:
        admin.list_topics()
    # They are users of one listener and one mechanism.
    for listener, options in (
        ("SHORT", listed),
        ("SASL", stage.options(SHA_256, "listed", "listed-secret")),
        ("SASL", stage.options("PLAIN", "listed", "guess")),
    ):
        with stage.admin(listener, **options) as admin, pytest.raises(FatalError):
            admin.list_topics()


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
@pytest.mark.parametrize("user", [ALICE, "nobody"])
def test_a_wrong_password_and_an_unknown_user_cannot_be_told_apart(
    stage: Stage, mechanism: str, user: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "ottla")
    options = stage.options(mechanism, user, "a-wrong-guess")
    with stage.admin("SASL", **options) as admin, pytest.raises(FatalError) as failure:
        admin.list_topics()
    expected = (
        "Invalid username or password"
        if mechanism == "PLAIN"
        else f"due to invalid credentials with SASL mechanism {mechanism}"
    )
    assert expected in str(failure.value)
    lines = [record for record in caplog.records if getattr(record, "event", "") == "login_failed"]
    assert all("the user does not exist, or the password is wrong" in x.message for x in lines)
    assert "a-wrong-guess" not in caplog.text
    assert "Traceback" not in caplog.text


def test_a_mechanism_that_is_not_enabled_is_named(stage: Stage) -> None:
    options = stage.options("PLAIN")
    with stage.admin("SCRAM", **options) as admin, pytest.raises(FatalError, match="SCRAM-SHA-512"):
        admin.list_topics()


def test_over_tls_the_login_counts_and_not_the_certificate(certificates: Certificates) -> None:
    with Broker(
        {
            "listeners": "SASL_SSL://127.0.0.1:0",
            "ssl.keystore.location": str(certificates.server),
            "ssl.truststore.location": str(certificates.ca),
            "ssl.client.auth": "required",
        }
    ) as broker:
        stage = Stage(broker)
        stage.set_passwords(USERS)
        options = {
            **stage.options(SHA_256),
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": str(certificates.ca),
            "ssl.keystore.location": str(certificates.client),
        }
        with stage.admin("SASL_SSL", **options) as admin:
            admin.list_topics()
            assert stage.principals("SASL_SSL") == [Principal.user(ALICE)]
        wrong = {**options, "sasl.password": "guess"}
        with stage.admin("SASL_SSL", **wrong) as admin, pytest.raises(FatalError, match=SHA_256):
            admin.list_topics()


# Tokens.


def log_in_by_token(stage: Stage, token: str) -> tuple[str | None, list[str]]:
    """The user that a token stands for, and what was said."""
    with connected(stage.address("SASL")) as peer:
        peer.handshake("OAUTHBEARER")
        challenge = peer.message(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
        if challenge == b"":
            (principal,) = {*stage.principals("SASL")} - {ANONYMOUS}
            return principal.name, peer.lines
        assert challenge == b'{"status":"invalid_token"}'
        assert peer.message(b"\x01") is None
        return None, peer.lines


def test_a_token_is_a_session_until_it_ends(stage: Stage) -> None:
    token = stage.tokens.token("carol")
    user, lines = log_in_by_token(stage, token)
    assert user == "carol"
    assert lines[-1].endswith("for some time")


def bad_tokens(stage: Stage) -> dict[str, tuple[str, str]]:
    """What is wrong with a token, and what the log says."""
    tokens = stage.tokens
    now = int(time.time())
    stranger = jwk.generate_key("EC", "P-256", {"kid": "first"})
    header, payload, signature = tokens.token().split(".")
    return {
        "expired": (tokens.token(exp=now - 100, iat=now - 200), "expired 10"),
        "not yet valid": (tokens.token(nbf=now + 100), "not valid yet"),
        "without an end": (tokens.token(exp=None), "no valid expiration"),
        "for an audience": (tokens.token(aud="elsewhere"), "expected.audience"),
        "signed by another": (tokens.token(key=stranger), "signature is not valid"),
        "changed": (f"{header}.{payload[:-2]}AA.{signature}", "signature is not valid"),
        "not signed": (f"{header}.{payload}.", "signature is not valid"),
        "no token": ("garbage", "not a signed token"),
    }


@pytest.mark.parametrize(
    "what",
    [
        "expired",
        "not yet valid",
        "without an end",
        "for an audience",
        "signed by another",
        "changed",
        "not signed",
        "no token",
    ],
)
def test_a_token_that_is_not_valid_is_refused_and_not_logged(
    stage: Stage, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "ottla")
    # What was logged a minute ago would only be counted.
    stage.broker._call(lambda running: running.node.audit._repetitions.clear())
    token, reason = bad_tokens(stage)[what]
    user, lines = log_in_by_token(stage, token)
    assert user is None
    assert lines[-1] == """< error 58, '{"status":"invalid_token"}', b'', without end"""
    assert reason in caplog.text
    assert token not in caplog.text


def test_algorithms_follow_from_keys() -> None:
    secret = jwk.generate_key("oct", 256, {"kid": "k"})
    pair = jwk.generate_key("RSA", 2048, {"kid": "k"})
    public = pair.as_dict(private=False)

    def claims(algorithm: str, signing: Any, *known: Any) -> Any:
        from joserfc import jwt

        token = jwt.encode(
            {"alg": algorithm, "kid": "k"}, {"sub": "x"}, signing, algorithms=[algorithm]
        )
        return signed_claims(token, known)

    assert claims("PS256", pair, public) == {"sub": "x"}
    assert claims("RS256", pair, {**public, "alg": "RS256"}) == {"sub": "x"}
    # The public key of RSA as a secret, a key for something else, an algorithm that the key excludes.
    assert isinstance(claims("HS256", secret, public), Rejected)
    assert isinstance(claims("RS256", pair, {**public, "use": "enc"}), Rejected)
    assert isinstance(claims("RS256", pair, {**public, "alg": "PS256"}), Rejected)
    assert isinstance(claims("RS256", pair, {**public, "kid": "other"}), UnknownKey)
    odd: list[dict[str, Any]] = [{}, {"kty": []}, {"kty": "EC", "crv": {}}, {"kty": "RSA", "n": 1}]
    for key in odd:
        assert isinstance(claims("RS256", pair, {"kid": "k", **key}), Rejected)
    ed25519 = jwk.generate_key("OKP", "Ed25519", {"kid": "k"})
    assert claims("Ed25519", ed25519, ed25519.as_dict(private=False)) == {"sub": "x"}
    unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0."
    assert isinstance(signed_claims(unsigned, [public]), Rejected)


def test_keys_that_come_a_byte_at_a_time_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Dripping(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            now[0] += 1.0
            return b" "

    now = [0.0]
    monkeypatch.setattr(token_keys, "monotonic", lambda: now[0])
    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: Dripping())
    with pytest.raises(TimeoutError, match="it took more than 10 s"):
        token_keys.fetch("https://issuer.example/keys")
    assert now == [token_keys.FETCH_SECONDS]


def test_a_new_key_is_fetched_when_a_token_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_keys, "MIN_INTERVAL_SECONDS", 0.0)
    with sasl_stage(tmp_path) as stage:
        new = jwk.generate_key("EC", "P-256", {"kid": "second"})
        stage.tokens.publish(stage.tokens.key, new)
        token = stage.tokens.token("dave", key=new)
        in_time_until(lambda: log_in_by_token(stage, token)[0] == "dave")


def in_time_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        in_time(deadline)


# What an unauthenticated client may do.


def ends(connection: socket.socket) -> bool:
    """Whether the broker closes a connection, within the time of the socket."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def silent_connection(stage: Stage, listener: str) -> socket.socket:
    host, _, port = stage.address(listener).rpartition(":")
    return socket.create_connection((host, int(port)), WAIT_SECONDS)


def pending_count(stage: Stage) -> int:
    return stage.broker._call(lambda running: len(running.server.logins.pending))


def test_a_login_has_a_deadline(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(stage.address("SASL")) as finished:
        finished.handshake("PLAIN")
        finished.log_in(plain())
        monkeypatch.setattr(pending_logins, "DEADLINE_SECONDS", 0.05)
        with silent_connection(stage, "SASL") as silent, silent_connection(stage, "OPEN") as other:
            assert ends(silent)
            other.settimeout(0.01)
            with pytest.raises(TimeoutError):
                other.recv(1)
        finished.metadata()
        assert finished.lines[-1] == "< MetadataResponse error 0"
    assert pending_count(stage) == 0


def test_the_oldest_of_too_many_pending_logins_is_closed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_time_until(lambda: pending_count(stage) == 0)
    monkeypatch.setattr(pending_logins, "MAX_PENDING", 2)
    with silent_connection(stage, "SASL") as first, silent_connection(stage, "SASL") as second:
        in_time_until(lambda: pending_count(stage) == 2)
        with connected(stage.address("SASL")) as third:
            third.handshake("PLAIN")
            assert ends(first)
            third.log_in(plain())
            third.metadata()
            assert third.lines[-1] == "< MetadataResponse error 0"
            # A place is free again.
            with connected(stage.address("SASL")) as fourth:
                fourth.handshake("PLAIN")
            second.settimeout(0.01)
            with pytest.raises(TimeoutError):
                second.recv(1)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0",
        struct.pack(">i", 8000) + b"\0\x12\0\3" + b"x" * 3000,
        frame_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 0, "x")
        + struct.pack(">i", 17_000)
        + b"\0\x24\0\1",
    ],
    ids=["nothing", "the first byte", "half of a frame", "the announcement of a large message"],
)
def test_an_unauthenticated_connection_has_little_memory(stage: Stage, sent: bytes) -> None:
    in_time_until(lambda: pending_count(stage) == 0)
    with silent_connection(stage, "SASL") as client:
        client.sendall(sent)

        def held(running: RunningBroker) -> int:
            connections = [
                each
                for each in running.server._connections
                if each.caller.listener == "SASL" and each.caller.principal.name != ALICE
            ]
            return max((len(each._buffer._data) for each in connections), default=-1)

        in_time_until(lambda: pending_count(stage) == 1)
        in_time_until(lambda: stage.broker._call(held) >= (0 if not sent else 1))
        assert stage.broker._call(held) <= 64 << 10


def test_a_handshake_is_a_small_frame(stage: Stage) -> None:
    with connected(stage.address("SASL")) as peer:
        peer.announce(sasl_gate.MAX_HANDSHAKE_BYTES + 1)
        assert peer.lines[-1] == f"< {CLOSED}"
    with connected(stage.address("SASL")) as peer:
        peer.handshake("PLAIN")
        peer.announce(plain_message.MAX_MESSAGE_BYTES + sasl_gate.MAX_HEADER_BYTES + 1)
        assert peer.lines[-1] == f"< {CLOSED}"
    with connected(stage.address("SASL")) as peer:
        peer.handshake("OAUTHBEARER")
        peer.announce(65_537)
        assert peer.lines[-1] == f"< {CLOSED}"


def test_what_is_sent_ahead_waits_for_the_login(stage: Stage) -> None:
    with RawConnection(stage.address("SASL")) as client:
        for request, version in (
            (SaslHandshakeRequest(mechanism="PLAIN"), 1),
            (SaslAuthenticateRequest(auth_bytes=plain().first()), 1),
            (MetadataRequest(topics=[]), 5),
        ):
            client.send(request, version)
        assert client.receive(SaslHandshakeResponse, 1).error_code == 0
        assert client.receive(SaslAuthenticateResponse, 1).error_code == 0
        assert client.receive(MetadataResponse, 5).brokers
    with RawConnection(stage.address("SASL")) as client:
        client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess"), 1)
        client.send(MetadataRequest(topics=[]), 5)
        assert client.receive(SaslHandshakeResponse, 1).error_code == 0
        assert client.receive(SaslAuthenticateResponse, 1).error_code == 58
        with pytest.raises(ConnectionError):
            client.receive(MetadataResponse, 5)


# Guessing.


def test_failed_logins_of_an_address_wait_for_each_other() -> None:
    failed = FailedLogins()
    delays = [failed.delay_seconds("10.0.0.1", 0.1, now=5.0) for _ in range(3)]
    assert delays == pytest.approx([0.1, 0.2, 0.3])
    assert failed.delay_seconds("10.0.0.2", 0.1, now=5.0) == pytest.approx(0.1)
    assert failed.delay_seconds("10.0.0.1", 0.1, now=9.0) == pytest.approx(0.1)
    assert not failed.is_too_much("10.0.0.1", 9.0)
    for _ in range(200):
        assert failed.delay_seconds("10.0.0.1", 0.1, now=9.0) <= 10.0
    assert failed.is_too_much("10.0.0.1", 9.0)
    assert not failed.is_too_much("10.0.0.2", 9.0)
    assert not failed.is_too_much("10.0.0.1", 100.0)


def test_the_failed_logins_that_are_remembered_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.failed_logins.MAX_SUBJECTS", 3)
    failed = FailedLogins()
    for number in range(10):
        failed.delay_seconds(f"10.0.0.{number}", 0.1, now=float(number % 2))
    assert len(failed._until) <= 3


def test_a_client_of_ipv6_has_many_addresses() -> None:
    assert address_block("2001:db8::1") == address_block("2001:db8::ffff:1")
    assert address_block("2001:db8:0:1::1") != address_block("2001:db8::1")
    assert address_block("fe80::1%eth0") == "fe80::/64"
    assert address_block("10.0.0.1") == "10.0.0.1"
    assert address_block("un:known") == "un:known"


def test_the_answer_to_a_failed_login_is_delayed_and_others_are_not(tmp_path: Path) -> None:
    with sasl_stage(tmp_path, connection_failed_authentication_delay_ms="500") as stage:
        with connected(stage.address("SASL")) as peer, connected(stage.address("SASL")) as other:
            peer.handshake("PLAIN")
            began = time.monotonic()
            sent = frame_request(
                SaslAuthenticateRequest(auth_bytes=plain(password="guess").first()), 1, 7, None
            )
            peer._socket.sendall(sent)
            in_time_until(lambda: pending_count(stage) == 1)
            other.handshake("PLAIN")
            other.log_in(plain())
            assert other.lines[-1].startswith("< error 0")
            assert not select.select([peer._socket], [], [], 0)[0]
            assert peer._socket.recv(4)
            assert time.monotonic() - began >= 0.5
        with connected(stage.address("SASL")) as early:
            early.handshake("PLAIN")
            stage.broker._call(
                lambda running: running.server.logins.failed.delay_seconds(
                    "127.0.0.1", 60.0, running.cluster.clock.monotonic_seconds()
                )
            )
            with silent_connection(stage, "SASL") as refused:
                assert ends(refused)
            # A connection from before does not get around it.
            early.log_in(plain())
            assert early.lines[-1] == f"< {CLOSED}"
        stage.broker.clock.advance("60s")
        with connected(stage.address("SASL")) as peer:
            peer.handshake("PLAIN")
            peer.log_in(plain())
            assert peer.lines[-1].startswith("< error 0")


def salt_of(stage: Stage, user: str) -> bytes:
    with RawConnection(stage.address("SASL")) as client:
        client.call(SaslHandshakeRequest(mechanism=SHA_256), SaslHandshakeResponse, 1)
        first = SaslAuthenticateRequest(auth_bytes=scram_of(SHA_256, user).first())
        return bytes(client.call(first, SaslAuthenticateResponse, 1).auth_bytes).split(b",s=")[1]


def test_an_unknown_user_has_a_salt_of_its_own(stage: Stage) -> None:
    salts = [salt_of(stage, user) for user in ("nobody", "nobody", "no one", ALICE)]
    assert salts[0] == salts[1]
    assert len(set(salts)) == 3
    # A number of 130 bits in base 36, in base64: 32 characters instead of 36 for one in sixty.
    assert {len(salt) for salt in salts} <= {32 + len(b",i=4096"), 36 + len(b",i=4096")}
    assert {salt.rpartition(b"i=")[2] for salt in salts} == {b"4096"}


# Sessions.


def test_a_session_that_has_ended_is_good_for_a_login_only(tmp_path: Path) -> None:
    with sasl_stage(tmp_path) as stage:
        with connected(stage.address("SHORT")) as peer, connected(stage.address("SHORT")) as idle:
            for each in (peer, idle):
                each.handshake("PLAIN")
                each.log_in(plain())
                each.metadata()
            stage.broker.clock.advance(f"{SESSION_MS + 10}ms")
            peer.handshake("PLAIN")
            peer.log_in(plain())
            peer.metadata()
            assert peer.lines[-1] == "< MetadataResponse error 0"
            idle.metadata()
            assert idle.lines[-1] == f"< {CLOSED}"
        assert logins(stage, "SHORT") == {
            "succeeded": 2,
            "failed": 0,
            "reauthenticated": 1,
            "reauthentication_failed": 0,
            "session_expired": 1,
        }


def logins(stage: Stage, listener: str) -> dict[str, float]:
    def count(running: RunningBroker) -> dict[str, float]:
        return dict(running.server.logins.by_listener[listener].counts.by_result())

    return stage.broker._call(count)


def test_our_client_goes_on_over_the_end_of_a_session(tmp_path: Path) -> None:
    with sasl_stage(tmp_path) as stage, stage.admin("SHORT", **stage.options(SHA_256)) as admin:
        admin.list_topics()
        before = logins(stage, "SHORT")
        stage.broker.clock.advance(f"{SESSION_MS - 500}ms")
        admin.list_topics()
        stage.broker.clock.advance(f"{SESSION_MS}ms")
        admin.list_topics()
        after = logins(stage, "SHORT")
        assert sum(after.values()) > sum(before.values())
        assert after["failed"] == after["reauthentication_failed"] == 0


def test_logins_are_measured(stage: Stage) -> None:
    import urllib.request

    with urllib.request.urlopen(stage.broker.metrics_url, timeout=10) as answer:
        found = read(answer.read().decode())
    samples = found["ottla_logins_total"].samples
    assert {dict(labels)["listener"] for _, labels in samples} == {
        "SASL",
        "SHORT",
        "SCRAM",
        "BRIEF",
    }
    assert "ottla_pending_logins" in found


# Users.


def test_a_changed_password_is_for_the_next_login(stage: Stage) -> None:
    stage.set_passwords({"eve": "old"})
    with connected(stage.address("SASL")) as before, connected(stage.address("SASL")) as after:
        before.handshake(SHA_256)
        before.log_in(scram_of(SHA_256, "eve", "old"))
        stage.set_passwords({"eve": "new"})
        before.metadata()
        assert before.lines[-1] == "< MetadataResponse error 0"
        after.handshake(SHA_256)
        after.log_in(scram_of(SHA_256, "eve", "old"))
        after.expect_end()
        assert after.lines[-1] == f"< {CLOSED}"
    with connected(stage.address("SASL")) as peer:
        peer.handshake(SHA_256)
        peer.log_in(scram_of(SHA_256, "eve", "new"))
        assert peer.lines[-1].startswith("< error 0")


def test_a_password_that_fits_changes_nothing(stage: Stage) -> None:
    def revision(running: RunningBroker) -> int:
        ensure_users(running.cluster, USERS)
        return running.cluster.store.catalog.revision

    assert stage.broker._call(revision) == stage.broker._call(revision)
    stage.set_passwords({"frank": "first"})
    before = stage.broker._call(revision)
    stage.set_passwords({"frank": "second"})
    assert stage.broker._call(revision) == before + 1


def test_a_listener_without_users_is_warned_of_until_there_are_some(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}

    def warned() -> bool:
        return "listener_without_users" in [getattr(each, "event", None) for each in caplog.records]

    with ottla.Broker(options):
        assert warned()
    caplog.clear()
    with ottla.Broker(security="scram"):
        assert not warned()


def test_users_are_in_force_on_all_nodes_and_survive_the_end_of_each() -> None:
    with ottla.Broker(
        {"listeners": "OPEN://127.0.0.1:0,SASL://127.0.0.1:0"}
        | {"listener.security.protocol.map": "OPEN:PLAINTEXT,SASL:SASL_PLAINTEXT"},
        nodes=3,
    ) as broker:
        with ottla.Admin(bootstrap_servers=broker.servers_of_listener("OPEN")) as admin:
            admin.alter_user_scram_credentials(
                [ottla.admin.UserScramCredentialUpsertion(ALICE, PASSWORD)]
            )
        for address in broker.servers_of_listener("SASL").split(","):
            log_in_at(address)
        broker.kill_node(1)
        for address in broker.servers_of_listener("SASL").split(","):
            log_in_at(address)


def log_in_at(address: str) -> None:
    with connected(address) as peer:
        peer.handshake(SHA_256)
        peer.log_in(scram_of(SHA_256))
        assert peer.lines[-1].startswith("< error 0"), peer.lines
