"""TLS: who is trusted, who is not, and what is said about it."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.client.network.conftest import Run
from tests.client.network.fake_broker import (
    HEARTBEAT,
    FakeBroker,
    config_for,
    network_to,
    running,
)
from tests.client.security.certificates import KEY_PASSWORD, STORE_PASSWORD, Certificates

from ottla.errors import ConfigError, FatalError, RetriableError, TlsError
from ottla.tls.contexts import client_context


async def talk(broker: FakeBroker, **options: object) -> None:
    """Use a broker once."""
    options = {"security_protocol": "SSL", **options}
    async with running(broker), network_to(broker.address, **options) as network:
        await network.updated(5000)
        await network.call(0, HEARTBEAT)


async def fail(broker: FakeBroker, words: str, **options: object) -> None:
    """See that a broker cannot be used, for good, and why."""
    async with running(broker):
        await fail_at(broker.address, words, **options)


async def fail_at(address: str, words: str, **options: object) -> None:
    async with network_to(address, security_protocol="SSL", **options) as network:
        with pytest.raises(TlsError, match=words) as caught:
            await network.updated(5000)
        assert isinstance(caught.value, FatalError)
        with pytest.raises(TlsError):
            await network.any_node()


@contextmanager
def refusing(context: ssl.SSLContext) -> Iterator[str]:
    """The address of a server that tells clients why it refuses them, which asyncio's does not."""

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connection.settimeout(5)
            try:
                secured = context.wrap_socket(
                    connection, server_side=True, do_handshake_on_connect=False
                )
            except OSError:  # the client has gone
                connection.close()
                continue
            with secured:
                with suppress(OSError):
                    secured.do_handshake()
                # Closing with something unread would reset the connection before the reason arrives.
                with suppress(OSError):
                    while socket.socket.recv(secured, 1000):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def pem(path: Path) -> str:
    return path.read_text(encoding="ascii")


def test_a_broker_with_a_trusted_certificate_is_talked_to(
    run: Run, certificates: Certificates
) -> None:
    broker = FakeBroker(tls=certificates.server_context())
    run(talk(broker, ssl_truststore_location=certificates.ca))


def test_the_trust_store_can_be_text_without_line_breaks(
    run: Run, certificates: Certificates
) -> None:
    text = pem(certificates.other_ca) + pem(certificates.ca)
    for store in (text, text.replace("\n", ""), text.replace("\n", " ")):
        broker = FakeBroker(tls=certificates.server_context())
        run(talk(broker, ssl_truststore_certificates=store))


def test_a_certificate_in_the_trust_store_need_not_be_a_root(
    run: Run, certificates: Certificates
) -> None:
    broker = FakeBroker(tls=certificates.server_context())
    run(talk(broker, ssl_truststore_location=certificates.server))


def test_a_broker_that_nobody_vouches_for_is_not_talked_to(
    run: Run, certificates: Certificates
) -> None:
    broker = FakeBroker(tls=certificates.server_context())
    run(fail(broker, "not accepted.*unable to get", ssl_truststore_location=certificates.other_ca))
    run(fail(FakeBroker(tls=certificates.server_context()), "not accepted"))
    assert not broker.asked


def test_a_certificate_of_another_host_is_not_accepted_unless_that_is_turned_off(
    run: Run, certificates: Certificates
) -> None:
    def broker() -> FakeBroker:
        return FakeBroker(tls=certificates.server_context(certificates.wrong_name))

    run(fail(broker(), "IP address mismatch", ssl_truststore_location=certificates.ca))
    run(
        talk(
            broker(),
            ssl_truststore_location=certificates.ca,
            ssl_endpoint_identification_algorithm="",
        )
    )


def test_a_broker_can_want_a_certificate_of_the_client(
    run: Run, certificates: Certificates
) -> None:
    trust = {"ssl_truststore_location": certificates.ca}
    for options in (
        {"ssl_keystore_location": certificates.client},
        {"ssl_keystore_location": certificates.encrypted_client, "ssl_key_password": KEY_PASSWORD},
        {
            "ssl_keystore_key": pem(certificates.encrypted_client).replace("\n", ""),
            "ssl_keystore_certificate_chain": pem(certificates.folder / "client.crt"),
            "ssl_key_password": KEY_PASSWORD,
        },
    ):
        broker = FakeBroker(tls=certificates.server_context_for_known_clients())
        run(talk(broker, **trust, **options))


def test_stores_can_be_pkcs12(run: Run, certificates: Certificates) -> None:
    options = {
        "ssl_truststore_location": certificates.ca_store,
        "ssl_truststore_password": STORE_PASSWORD,
        "ssl_keystore_location": certificates.client_store,
        "ssl_keystore_password": STORE_PASSWORD,
    }
    broker = FakeBroker(tls=certificates.server_context_for_known_clients())
    run(talk(broker, **options))
    for changed, reason in (
        ({"ssl_keystore_password": "wrong"}, "ssl.keystore.password is wrong"),
        ({"ssl_truststore_password": None}, "ssl.truststore.password is missing"),
        ({"ssl_truststore_location": certificates.folder / "nothing.p12"}, "No such file"),
    ):
        with pytest.raises(ConfigError, match=reason) as refused:
            client_context(config_for("h:1", security_protocol="SSL", **{**options, **changed}))
        assert STORE_PASSWORD not in str(refused.value)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_without_the_certificate_that_the_broker_wants_is_told(
    run: Run, certificates: Certificates, version: str
) -> None:
    options = {"ssl_truststore_location": certificates.ca, "ssl_enabled_protocols": version}
    with refusing(certificates.server_context_for_known_clients()) as address:
        run(fail_at(address, "certificate of the client", **options))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_versions_that_are_not_enabled_are_not_spoken(
    run: Run, certificates: Certificates, version: str
) -> None:
    other = {"TLSv1.2": ssl.TLSVersion.TLSv1_3, "TLSv1.3": ssl.TLSVersion.TLSv1_2}[version]
    server = certificates.server_context()
    server.minimum_version = server.maximum_version = other
    options = {"ssl_truststore_location": certificates.ca, "ssl_enabled_protocols": version}
    with refusing(server) as address:
        run(fail_at(address, r"ssl\.enabled\.protocols", **options))


def test_cipher_suites_can_be_chosen_by_their_names_in_java(
    run: Run, certificates: Certificates
) -> None:
    options = {
        "security_protocol": "SSL",
        "ssl_enabled_protocols": "TLSv1.2",
        "ssl_truststore_location": certificates.ca,
        "ssl_cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    }

    async def main() -> None:
        broker = FakeBroker(tls=certificates.server_context())
        async with running(broker), network_to(broker.address, **options) as network:
            await network.updated(5000)
            connection = await network.connection(0)
            assert connection._transport is not None
            cipher = connection._transport.get_extra_info("cipher")
            assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"

    run(main())


def test_a_client_with_tls_at_a_port_without_it_is_told(
    run: Run, certificates: Certificates
) -> None:
    """A broker hangs up: the first message looks like a request that is too long."""

    async def main() -> None:
        broker = FakeBroker()
        broker.greeting = b"\0\0\0\4what"
        options = {"security_protocol": "SSL", "ssl_truststore_location": certificates.ca}
        async with running(broker), network_to(broker.address, **options) as network:
            with pytest.raises(TlsError, match="does not speak TLS on this port"):
                await network.updated(5000)

    run(main())


def test_a_client_without_tls_at_a_port_with_it_is_told(
    run: Run, certificates: Certificates
) -> None:
    async def main() -> None:
        broker = FakeBroker(tls=certificates.server_context())
        async with running(broker), network_to(broker.address) as network:
            with pytest.raises(
                RetriableError, match=r"expect SSL on this port|security\.protocol=PLAINTEXT|broke"
            ):
                await network.any_node()

    run(main())


def test_large_answers_arrive_whole_through_tls(run: Run, certificates: Certificates) -> None:
    async def main() -> None:
        broker = FakeBroker(tls=certificates.server_context())
        name = "x" * 30_000
        broker.topics = {f"{name}{number}": 1 for number in range(100)}
        options = {"security_protocol": "SSL", "ssl_truststore_location": certificates.ca}
        async with running(broker), network_to(broker.address, **options) as network:
            for topic in broker.topics:
                network.want_topic(topic)
            await network.topic(f"{name}99", 5000)
            assert list(network.cluster.topics) == list(broker.topics)

    run(main())


class TestOptions:
    """What is wrong is said before anything is sent, and names the option."""

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"ssl_truststore_location": "/no/such/file"}, "ssl.truststore.location=/no/such"),
            ({"ssl_truststore_certificates": "no"}, "ssl.truststore.certificates has no certif"),
            (
                {
                    "ssl_truststore_certificates": "-----BEGIN CERTIFICATE-----\nAAAA\n"
                    "-----END CERTIFICATE-----"
                },
                "cannot be read",
            ),
            ({"ssl_keystore_location": "{ca}"}, "ssl.keystore.location has no private key"),
            ({"ssl_keystore_location": "{ca_key}"}, "ssl.keystore.location has no certificate"),
            ({"ssl_keystore_location": "{encrypted}"}, "encrypted: give ssl.key.password"),
            (
                {"ssl_keystore_location": "{encrypted}", "ssl_key_password": "no"},
                "ssl.key.password is wrong",
            ),
            (
                {"ssl_cipher_suites": "NO_SUCH", "ssl_enabled_protocols": "TLSv1.2"},
                "ssl.cipher.suites",
            ),
        ],
    )
    def test_a_value_that_cannot_be_is_refused(
        self, certificates: Certificates, options: dict[str, str], words: str
    ) -> None:
        files = {
            "ca": certificates.ca,
            "ca_key": certificates.folder / "ca.key",
            "encrypted": certificates.encrypted_client,
        }
        given = {
            name: value.format(**files) if value.startswith("{") else value
            for name, value in options.items()
        }
        config = config_for("127.0.0.1:1", security_protocol="SSL", **given)
        with pytest.raises(ConfigError, match=re.escape(words)):
            client_context(config)

    def test_without_a_trust_store_that_of_the_operating_system_counts(self) -> None:
        context = client_context(config_for("127.0.0.1:1", security_protocol="SSL"))
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
