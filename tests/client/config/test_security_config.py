"""The options about security and the rules between them."""

from __future__ import annotations

import pickle
import ssl
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.client import read_client_config
from ottla.config.jaas import parse_jaas
from ottla.config.producer import ProducerConfig
from ottla.config.security import Credentials
from ottla.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def config(**options: Any) -> ProducerConfig:
    return read_client_config(ProducerConfig, {"bootstrap.servers": "127.0.0.1:9093"}, options)


def sasl(mechanism: str = "PLAIN", **options: Any) -> ProducerConfig:
    return config(security_protocol="SASL_SSL", sasl_mechanism=mechanism, **options)


def tls(**options: Any) -> ProducerConfig:
    return config(security_protocol="SSL", **options)


# Protocols


@pytest.mark.parametrize(
    ("protocol", "uses_tls", "uses_sasl"),
    [
        ("PLAINTEXT", False, False),
        ("ssl", True, False),
        ("SASL_PLAINTEXT", False, True),
        ("sasl_ssl", True, True),
    ],
)
def test_the_protocol_says_what_a_connection_does(
    protocol: str, uses_tls: bool, uses_sasl: bool
) -> None:
    options = {"sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "b"}
    read = config(security_protocol=protocol, **(options if uses_sasl else {}))
    assert (read.uses_tls, read.uses_sasl) == (uses_tls, uses_sasl)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"ssl_truststore_location": "ca.pem"},
            r"ssl\.truststore\.location has no effect .*SSL or SASL_SSL",
        ),
        ({"sasl_username": "a"}, r"sasl\.username has no effect with security\.protocol=PLAINTEXT"),
        (
            {"security_protocol": "SSL", "sasl_mechanism": "PLAIN"},
            r"sasl\.mechanism has no effect with security\.protocol=SSL: set .* SASL_SSL",
        ),
    ],
)
def test_options_that_the_protocol_leaves_out_are_refused(
    options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        config(**options)


# Stores


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (
            {"ssl_truststore_location": "/etc/trust.jks"},
            "`keytool -list -rfc -keystore /etc/trust.jks > /etc/trust.pem`, "
            "then set ssl.truststore.location=/etc/trust.pem and ssl.truststore.type=PEM",
        ),
        (
            {"ssl_keystore_location": "me.jks"},
            "`keytool -importkeystore -srckeystore me.jks -destkeystore me.p12 "
            "-deststoretype PKCS12`, then set ssl.keystore.location=me.p12 and "
            "ssl.keystore.type=PKCS12",
        ),
        ({"ssl_keystore_type": "jks"}, "format JKS, which is not read here"),
        ({"ssl_keystore_type": "BKS"}, "ssl.keystore.type=BKS is not available: use PEM or PKCS12"),
    ],
)
def test_a_java_store_is_refused_with_the_command_that_converts_it(
    options: dict[str, Any], command: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        tls(**options)
    assert command in str(caught.value)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"ssl_truststore_location": "a.pem", "ssl_truststore_certificates": "PEM"},
            "are both given: keep one",
        ),
        (
            {"ssl_keystore_location": "a.pem", "ssl_keystore_key": "PEM"},
            "keep the file or the two texts",
        ),
        ({"ssl_keystore_type": "PKCS12"}, "needs a file: give ssl.keystore.location"),
        (
            {"ssl_truststore_location": "a.pem", "ssl_truststore_password": "x"},
            "PEM files have no password",
        ),
        ({"ssl_keystore_key": "PEM"}, "belong together: give both"),
        ({"ssl_keystore_certificate_chain": "PEM"}, "belong together: give both"),
        ({"ssl_enabled_protocols": "TLSv1.3", "ssl_protocol": "TLSv1.2"}, "leaves nothing"),
        ({"ssl_enabled_protocols": "TLSv1.1"}, "a list of TLSv1.2, TLSv1.3"),
        ({"ssl_cipher_suites": "ECDHE-RSA-AES128-GCM-SHA256"}, "cannot limit TLS 1.3"),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "one of https"),
    ],
)
def test_contradictions_about_tls_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        tls(**options)


def test_pem_comes_in_a_file_or_as_text() -> None:
    file = tls(ssl_keystore_location="me.pem", ssl_keystore_type="pem", ssl_key_password="x")
    assert file.ssl_keystore_location == "me.pem"
    text = tls(ssl_keystore_key="KEY", ssl_keystore_certificate_chain="CHAIN")
    assert (text.ssl_keystore_key, text.ssl_keystore_certificate_chain) == ("KEY", "CHAIN")
    assert tls(ssl_truststore_certificates="CA", ssl_truststore_type="PEM").uses_tls


@pytest.mark.parametrize(
    ("options", "versions"),
    [
        ({}, ("TLSv1.2", "TLSv1.3")),
        ({"ssl_protocol": "TLSv1.2"}, ("TLSv1.2",)),
        ({"ssl_enabled_protocols": "TLSv1.3"}, ("TLSv1.3",)),
    ],
)
def test_versions_of_tls_are_limited_by_two_options(
    options: dict[str, str], versions: tuple[str, ...]
) -> None:
    assert tls(**options).tls_versions == versions


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_GCM_SHA384", "DHE-RSA-AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_cipher_suites_have_javas_or_openssls_names(java: str, openssl: str) -> None:
    read = tls(ssl_cipher_suites=[java], ssl_enabled_protocols="TLSv1.2")
    assert read.openssl_ciphers == openssl
    context = ssl.create_default_context()
    context.set_ciphers(openssl)
    assert openssl in [cipher["name"] for cipher in context.get_ciphers()]


def test_no_cipher_suites_leave_openssls_own() -> None:
    assert tls().openssl_ciphers is None


# SASL


@pytest.mark.parametrize(
    ("mechanism", "options", "expected"),
    [
        ("PLAIN", {"sasl_username": "ann", "sasl_password": "pw"}, Credentials("ann", "pw")),
        (
            "PLAIN",
            {"sasl_jaas_config": f'{PLAIN} required username="ann" password="p w";'},
            Credentials("ann", "p w"),
        ),
        (
            "SCRAM-SHA-512",
            {"sasl_jaas_config": f"{SCRAM} required username=ann password=pw tokenauth=true;"},
            Credentials("ann", "pw", is_delegation_token=True),
        ),
    ],
)
def test_credentials_come_from_jaas_or_two_options(
    mechanism: str, options: dict[str, str], expected: Credentials
) -> None:
    assert sasl(mechanism, **options).sasl_credentials == expected


def test_oauthbearer_needs_a_callable() -> None:
    with pytest.raises(ConfigError, match=r"give it as sasl\.login\.callback\.handler\.class"):
        sasl("OAUTHBEARER")
    for name in ("sasl_login_callback_handler_class", "sasl_oauthbearer_token_callback"):
        read = sasl("OAUTHBEARER", **{name: str}, sasl_jaas_config=f"{OAUTH} required ;")
        assert read.sasl_login_callback_handler_class is str
        assert read.sasl_credentials is None


@pytest.mark.parametrize(
    ("mechanism", "options", "reason"),
    [
        ("GSSAPI", {}, "sasl.mechanism='GSSAPI' is not available: set it to one of PLAIN, SCRAM"),
        ("PLAIN", {}, "needs a name and a password"),
        ("PLAIN", {"sasl_username": "ann"}, "needs a name and a password"),
        ("PLAIN", {"sasl_jaas_config": f"{PLAIN} required;"}, "needs a name and a password"),
        ("PLAIN", {"sasl_jaas_config": f"{SCRAM} required username=a password=b;"}, "does not fit"),
        ("PLAIN", {"sasl_jaas_config": "com.example.Mine required;"}, "which is not available"),
        (
            "PLAIN",
            {"sasl_jaas_config": f"{PLAIN} required username=a password=b tokenauth=true;"},
            "option tokenauth, which is not available",
        ),
        (
            "PLAIN",
            {"sasl_jaas_config": f"{PLAIN} required username=a password=b;", "sasl_username": "a"},
            "keep one",
        ),
        (
            "PLAIN",
            {"sasl_username": "a", "sasl_password": "b", "sasl_login_callback_handler_class": str},
            "is for sasl.mechanism=OAUTHBEARER, not for PLAIN",
        ),
    ],
)
def test_sasl_that_cannot_work_is_refused(
    mechanism: str, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        sasl(mechanism, **options)
    assert reason in str(caught.value)


def test_a_sasl_protocol_without_a_mechanism_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not available: set it to one of"):
        config(security_protocol="SASL_SSL")


def test_secrets_are_not_shown() -> None:
    secret = "hush-hush"
    read = sasl(sasl_username="ann", sasl_password=secret, ssl_key_password=secret)
    assert secret not in repr(read)
    assert secret not in repr(read.sasl_credentials)
    for bad in (f"{PLAIN} required password={secret}", f'{PLAIN} required password="{secret}'):
        with pytest.raises(ConfigError) as caught:
            sasl(sasl_jaas_config=bad)
        assert secret not in str(caught.value)
    with pytest.raises(ConfigError, match=r"sasl\.password=\(hidden\)"):
        sasl(sasl_password=[secret])
    assert pickle.loads(pickle.dumps(read)) == read


# JAAS


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("M required;", {}),
        ("M REQUIRED a=b;", {"a": "b"}),
        ('M optional a="b c" d=e-f_g$.h;', {"a": "b c", "d": "e-f_g$.h"}),
        (
            r'M required a="q\"q" b="\\" c="\t" d="\101" e="\z";',
            {"a": 'q"q', "b": "\\", "c": "\t", "d": "A", "e": "z"},
        ),
        ("M required a='b;c=d';", {"a": "b;c=d"}),
        ("M // why\n required /* so */ a = b ;\n", {"a": "b"}),
        ('M required a="käse" a="last";', {"a": "last"}),
    ],
)
def test_jaas_is_read_as_java_reads_it(text: str, options: dict[str, str]) -> None:
    entry = parse_jaas(text)
    assert entry.module == "M"
    assert entry.options == options


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("// nothing", "it is empty"),
        ("M required", "does not end with a semicolon"),
        ("M;", "must begin with a login module and a flag"),
        ("M perhaps;", "after M must come one of required"),
        ("M required a;", "NAME=VALUE"),
        ("M required a=;", "NAME=VALUE"),
        ("M required =b;", "NAME=VALUE"),
        ("M required a=b c;", "NAME=VALUE"),
        ("M required; N required;", "more than one login module"),
        ("M required a=b@c;", "quote values"),
        ('M required a="b;', "quote values"),
    ],
)
def test_jaas_that_is_none_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_jaas(text)


@given(st.text() | st.text("M required ab=\"';=/*\\\n"))
def test_text_is_jaas_or_refused(text: str) -> None:
    try:
        parse_jaas(text)
    except ConfigError as error:
        if "sasl.jaas.config is not valid" not in str(error):
            raise


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]+", fullmatch=True), st.text(st.characters(exclude_characters="\n\r"))
    )
)
def test_quoted_values_survive(options: dict[str, str]) -> None:
    quoted = [
        f'{name}="{value}"'
        for name, value in (
            (name, value.replace("\\", "\\\\").replace('"', '\\"'))
            for name, value in options.items()
        )
    ]
    assert parse_jaas(f"M required {' '.join(quoted)};").options == options
