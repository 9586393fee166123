"""SASL without a socket: vectors of the RFCs, and what a false broker cannot make of it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.security.sasl_broker import ScramServer

from ottla.client.security.mechanisms import Mechanism, OAuthBearer, Plain, Token
from ottla.client.security.scram import scram, scram_with_token
from ottla.core.security.scram_formulas import BY_SASL_NAME
from ottla.errors import FatalError

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


class TestScram:
    def test_the_exchange_of_rfc_7677(self) -> None:
        client = scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
        assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
        assert client.respond(
            b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        ) == (
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        )
        assert client.respond(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None

    @pytest.mark.parametrize("mechanism", BY_SASL_NAME)
    @given(password=names)
    def test_a_server_that_knows_the_password_is_convinced_and_convinces(
        self, mechanism: str, password: str
    ) -> None:
        client, server = (
            scram(mechanism, "user", password, "nonce"),
            ScramServer(BY_SASL_NAME[mechanism].hash_name, password),
        )
        proof = client.respond(server.first(client.first()))
        assert proof is not None
        signature = server.final(proof)
        assert signature is not None
        assert client.respond(signature) is None

    def test_a_wrong_password_does_not_convince(self) -> None:
        client = scram("SCRAM-SHA-512", "user", "wrong", "nonce")
        server = ScramServer("sha512", "right")
        proof = client.respond(server.first(client.first()))
        assert proof is not None
        assert server.final(proof) is None

    def test_a_server_that_does_not_know_the_password_is_found_out(self) -> None:
        client = scram("SCRAM-SHA-256", "user", "right", "nonce")
        false_server = ScramServer("sha256", "guessed")
        proof = client.respond(false_server.first(client.first()))
        assert proof is not None
        server_key = false_server.mac(false_server.salted, b"Server Key")
        signature = base64.b64encode(false_server.mac(server_key, b"anything"))
        with pytest.raises(FatalError, match="could not prove"):
            client.respond(b"v=" + signature)

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (b"r=nonce,s=c2FsdA==,i=4096", "does not extend ours"),
            (b"r=other,s=c2FsdA==,i=4096", "does not extend ours"),
            (b"r=nonce1,s=c2FsdA==,i=4095", "4095 iterations"),
            (b"r=nonce1,s=c2FsdA==,i=2000000000", "2000000000 iterations"),
            (b"m=new,r=nonce1,s=c2FsdA==,i=4096", "not valid"),
            (b"r=nonce1,s=c2Fsd,i=4096", "not valid"),
            (b"r=nonce1,s=c2FsdA==,i=-1", "not valid"),
            (b"v=c2FsdA==", "not valid"),
            (b"", "not valid"),
            (b"\xff\xff", "not valid"),
        ],
    )
    def test_a_first_answer_that_breaks_the_rules_is_refused(
        self, answer: bytes, words: str
    ) -> None:
        client = scram("SCRAM-SHA-256", "user", "secret", "nonce")
        client.first()
        with pytest.raises(FatalError, match=words):
            client.respond(answer)

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (b"e=invalid-proof", "invalid-proof"),
            (b"", "not valid"),
            (b"v=", "could not prove"),
            (b"v=!", "not valid"),
        ],
    )
    def test_a_last_answer_that_proves_nothing_is_refused(self, answer: bytes, words: str) -> None:
        client = scram("SCRAM-SHA-256", "user", "secret", "nonce")
        client.respond(ScramServer("sha256", "secret").first(client.first()))
        with pytest.raises(FatalError, match=words):
            client.respond(answer)

    def test_nothing_follows_the_end(self) -> None:
        client, server = (
            scram("SCRAM-SHA-256", "user", "secret", "nonce"),
            ScramServer("sha256", "secret"),
        )
        signature = server.final(client.respond(server.first(client.first())) or b"")
        assert client.respond(signature or b"") is None
        with pytest.raises(FatalError, match="goes on"):
            client.respond(b"")

    def test_commas_and_equal_signs_of_names_are_escaped(self) -> None:
        assert scram("SCRAM-SHA-256", "a=b,c", "x", "nonce").first() == b"n,,n=a=3Db=2Cc,r=nonce"

    def test_a_delegation_token_says_what_it_is(self) -> None:
        client = scram_with_token("SCRAM-SHA-512", "id", "mac", "nonce")
        assert client.first() == b"n,,n=id,r=nonce,tokenauth=true"

    @given(st.binary())
    def test_garbage_is_refused(self, garbage: bytes) -> None:
        client = scram("SCRAM-SHA-256", "user", "secret", "nonce")
        client.first()
        with pytest.raises(FatalError):
            client.respond(garbage)


class TestPlain:
    @given(names, names)
    def test_name_and_password_are_sent_as_they_are(self, name: str, password: str) -> None:
        assert Plain(name, password).first() == b"\0" + name.encode() + b"\0" + password.encode()

    def test_a_zero_character_could_be_taken_for_the_end_of_the_name(self) -> None:
        for name, password in (("a\0b", "c"), ("a", "b\0c")):
            with pytest.raises(FatalError, match="zero character"):
                Plain(name, password)

    def test_it_is_over_after_one_message(self) -> None:
        client: Mechanism = Plain("a", "b")
        assert client.respond(b"") is None
        with pytest.raises(FatalError):
            client.respond(b"more")


class TestOAuthBearer:
    def test_the_token_and_its_extensions_are_sent_as_rfc_7628_says(self) -> None:
        client = OAuthBearer(Token("a.b.c", {"logicalCluster": "lkc-1", "poolId": "p"}))
        assert client.first() == (
            b"n,,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01poolId=p\x01\x01"
        )
        assert client.respond(b"") is None

    def test_a_refusal_is_answered_and_told(self) -> None:
        client = OAuthBearer(Token("a.b.c"))
        assert client.respond(b'{"status":"invalid_token"}') == b"\x01"
        with pytest.raises(FatalError, match="invalid_token"):
            client.respond(b"")

    @pytest.mark.parametrize("value", ["", "a b", "a\x01auth=Bearer b", "ä", "a\n"])
    def test_what_is_no_token_is_not_sent(self, value: str) -> None:
        with pytest.raises(FatalError) as caught:
            OAuthBearer(Token(value))
        assert value not in str(caught.value) or not value

    @pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a1": "x"}, {"a": ""}, {"a": "\x01"}])
    def test_extensions_that_could_be_taken_for_something_else_are_not_sent(
        self, extensions: dict[str, str]
    ) -> None:
        with pytest.raises(FatalError, match="extension"):
            OAuthBearer(Token("a", extensions))

    def test_a_token_is_not_shown(self) -> None:
        assert "secret" not in repr(Token("secret"))
