"""The options of clients about encryption, trust and authentication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ottla.config.jaas import JaasEntry, parse_jaas
from ottla.config.options import Config, Importance, OptionType, option
from ottla.config.unsupported_client_options import UNSUPPORTED_SHARED_OPTIONS
from ottla.errors import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAIN = "PLAIN"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")

_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": (PLAIN,),
    "org.apache.kafka.common.security.scram.ScramLoginModule": SCRAM_MECHANISMS,
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": (OAUTHBEARER,),
}
_MODULE_OPTIONS = {
    PLAIN: {"username", "password"},
    OAUTHBEARER: set[str](),
    **{mechanism: {"username", "password", "tokenauth"} for mechanism in SCRAM_MECHANISMS},
}
_JAVA_STORE_TYPES = ("JKS", "PKCS12")
_JAVA_STORE_SUFFIXES = {".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12", ".pkcs12": "PKCS12"}


class Credentials(NamedTuple):
    """A user name and a password for PLAIN or SCRAM."""

    username: str
    password: str
    is_delegation_token: bool = False

    def __repr__(self) -> str:
        return f"Credentials(username={self.username!r}, password=(hidden))"


@dataclass(frozen=True)
class SecurityConfig(Config):
    """The options about security, which all clients share."""

    unsupported: ClassVar[Mapping[str, str]] = UNSUPPORTED_SHARED_OPTIONS

    security_protocol: str = option(
        OptionType.STRING,
        "PLAINTEXT",
        choices=PROTOCOLS,
        ignore_case=True,
        doc="Whether connections are encrypted (SSL) and whether the client authenticates (SASL).",
    )
    sasl_mechanism: str = option(
        OptionType.STRING,
        "GSSAPI",
        doc="How the client authenticates: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. "
        "The default is Kafka's and not supported: with SASL this option has to be set.",
    )
    sasl_jaas_config: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The user name and password for PLAIN and SCRAM in the form of Kafka's clients: the login "
        "module with its options.",
    )
    sasl_username: str | None = option(
        OptionType.STRING,
        None,
        doc="The user name for PLAIN and SCRAM, instead of sasl.jaas.config.",
    )
    sasl_password: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The password for PLAIN and SCRAM, instead of sasl.jaas.config.",
    )
    sasl_login_callback_handler_class: object = option(
        OptionType.CLASS,
        None,
        doc="A callable without arguments that returns a token for OAUTHBEARER, or its dotted path. "
        "It is called whenever a connection authenticates, and may be a coroutine function.",
        aliases=("sasl.oauthbearer.token.callback",),
    )
    ssl_protocol: str = option(
        OptionType.STRING,
        "TLSv1.3",
        choices=TLS_VERSIONS,
        doc="The highest version of TLS that the client offers.",
    )
    ssl_enabled_protocols: tuple[str, ...] = option(
        OptionType.LIST,
        TLS_VERSIONS,
        choices=TLS_VERSIONS,
        doc="The versions of TLS that the client offers.",
    )
    ssl_cipher_suites: tuple[str, ...] = option(
        OptionType.LIST,
        (),
        doc="The cipher suites of TLS 1.2 that the client offers, by their names in Java or OpenSSL; "
        "TLS 1.3 has to be disabled.",
        importance=Importance.LOW,
    )
    ssl_endpoint_identification_algorithm: str = option(
        OptionType.STRING,
        "https",
        choices=("https", ""),
        ignore_case=True,
        doc="https checks that the broker's certificate is for its host name; "
        "an empty text disables the check.",
        importance=Importance.LOW,
    )
    ssl_truststore_type: str = option(
        OptionType.STRING,
        "PEM",
        doc="The format of the trust store: PEM.",
    )
    ssl_truststore_location: str | None = option(
        OptionType.STRING,
        None,
        doc="A PEM file with the trusted certificates; the default, unless "
        "ssl.truststore.certificates is set, are those of the operating system.",
        importance=Importance.HIGH,
    )
    ssl_truststore_certificates: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The trusted certificates, as PEM text.",
        importance=Importance.HIGH,
    )
    ssl_keystore_type: str = option(
        OptionType.STRING,
        "PEM",
        doc="The format of the key store: PEM.",
    )
    ssl_keystore_location: str | None = option(
        OptionType.STRING,
        None,
        doc="A PEM file with the client's private key and its certificate chain.",
        importance=Importance.HIGH,
    )
    ssl_keystore_key: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The client's private key, as PEM text.",
        importance=Importance.HIGH,
    )
    ssl_keystore_certificate_chain: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The client's certificate chain, as PEM text.",
        importance=Importance.HIGH,
    )
    ssl_key_password: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The password of the client's private key, if it is encrypted.",
        importance=Importance.HIGH,
    )

    def validate(self) -> None:
        """Check the rules between options."""
        self._check_stores()
        self._check_tls()
        self._check_sasl()
        for prefix, used, wanted in (
            ("ssl.", self.uses_tls, "SSL or SASL_SSL"),
            ("sasl.", self.uses_sasl, "SASL_SSL or SASL_PLAINTEXT"),
        ):
            unused = sorted(name for name in self.given if name.startswith(prefix))
            if unused and not used:
                raise ConfigError(
                    f"{unused[0]} has no effect with security.protocol={self.security_protocol}: "
                    f"set security.protocol to {wanted}, or remove the option"
                )

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether connections begin with SASL."""
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @property
    def sasl_credentials(self) -> Credentials | None:
        """The name and password for PLAIN or SCRAM."""
        if self.sasl_jaas_config is not None:
            options = parse_jaas(self.sasl_jaas_config).options
            if "username" not in options:
                return None
            is_token = options.get("tokenauth", "").lower() == "true"
            return Credentials(options["username"], options.get("password", ""), is_token)
        if self.sasl_username is not None and self.sasl_password is not None:
            return Credentials(self.sasl_username, self.sasl_password)
        return None

    @property
    def tls_versions(self) -> tuple[str, ...]:
        """The versions of TLS that may be used, the lowest first."""
        highest = TLS_VERSIONS.index(self.ssl_protocol)
        return tuple(v for v in TLS_VERSIONS[: highest + 1] if v in self.ssl_enabled_protocols)

    @property
    def openssl_ciphers(self) -> str | None:
        """ssl.cipher.suites as OpenSSL's list of ciphers."""
        if not self.ssl_cipher_suites:
            return None
        return ":".join(map(_openssl_name, self.ssl_cipher_suites))

    def _check_stores(self) -> None:
        for store in ("truststore", "keystore"):
            location: str | None = getattr(self, f"ssl_{store}_location")
            kind = getattr(self, f"ssl_{store}_type").upper()
            for suffix, its_kind in _JAVA_STORE_SUFFIXES.items():
                if location is not None and location.lower().endswith(suffix):
                    kind = its_kind
            if kind != "PEM":
                raise _store_refused(store, kind, location)
        if self.ssl_truststore_location and self.ssl_truststore_certificates:
            raise ConfigError(
                "ssl.truststore.location and ssl.truststore.certificates are both given: keep one"
            )
        if self.ssl_keystore_location and (
            self.ssl_keystore_key or self.ssl_keystore_certificate_chain
        ):
            raise ConfigError(
                "ssl.keystore.location is given together with ssl.keystore.key or "
                "ssl.keystore.certificate.chain: keep the file or the two texts"
            )
        if (self.ssl_keystore_key is None) != (self.ssl_keystore_certificate_chain is None):
            raise ConfigError(
                "ssl.keystore.key and ssl.keystore.certificate.chain belong together: give both"
            )

    def _check_tls(self) -> None:
        if not self.tls_versions:
            raise ConfigError(
                f"ssl.enabled.protocols={','.join(self.ssl_enabled_protocols)} leaves nothing with "
                f"ssl.protocol={self.ssl_protocol}: add a version or raise ssl.protocol"
            )
        # Python's ssl has no way to choose the suites of TLS 1.3.
        if self.ssl_cipher_suites and self.tls_versions != ("TLSv1.2",):
            raise ConfigError(
                "ssl.cipher.suites cannot limit TLS 1.3: set ssl.enabled.protocols=TLSv1.2 as well, "
                "or remove ssl.cipher.suites"
            )

    def _check_sasl(self) -> None:
        entry = None if self.sasl_jaas_config is None else parse_jaas(self.sasl_jaas_config)
        if not self.uses_sasl:
            return
        if self.sasl_mechanism not in MECHANISMS:
            raise ConfigError(
                f"sasl.mechanism={self.sasl_mechanism!r} is not available: "
                f"set it to one of {', '.join(MECHANISMS)}"
            )
        if entry is not None:
            self._check_login_module(entry)
        if self.sasl_mechanism == OAUTHBEARER:
            if self.sasl_login_callback_handler_class is None:
                raise ConfigError(
                    "sasl.mechanism=OAUTHBEARER needs a callable that returns tokens: "
                    "give it as sasl.login.callback.handler.class"
                )
        elif self.sasl_login_callback_handler_class is not None:
            raise ConfigError(
                "sasl.login.callback.handler.class is for sasl.mechanism=OAUTHBEARER, not for "
                f"{self.sasl_mechanism}: remove it, or change the mechanism"
            )
        elif self.sasl_credentials is None:
            raise ConfigError(
                f"sasl.mechanism={self.sasl_mechanism} needs a name and a password: give "
                "sasl.jaas.config, or sasl.username and sasl.password"
            )

    def _check_login_module(self, entry: JaasEntry) -> None:
        if self.sasl_username is not None or self.sasl_password is not None:
            raise ConfigError(
                "sasl.jaas.config is given together with sasl.username or sasl.password: keep one"
            )
        if entry.module not in _MODULES:
            raise ConfigError(
                f"sasl.jaas.config names {entry.module}, which is not available: "
                f"use one of {', '.join(_MODULES)}"
            )
        if self.sasl_mechanism not in _MODULES[entry.module]:
            raise ConfigError(
                f"sasl.jaas.config names {entry.module}, which does not fit "
                f"sasl.mechanism={self.sasl_mechanism}: change one of them"
            )
        unknown = sorted(entry.options.keys() - _MODULE_OPTIONS[self.sasl_mechanism])
        if unknown:
            raise ConfigError(
                f"sasl.jaas.config has the option {unknown[0]}, which is not available with "
                f"sasl.mechanism={self.sasl_mechanism}: remove it"
            )


def _store_refused(store: str, kind: str, location: str | None) -> ConfigError:
    """The error for a key store in a format of Java, with the command that converts it."""
    if kind not in _JAVA_STORE_TYPES:
        return ConfigError(f"ssl.{store}.type={kind} is not available: use PEM")
    file = location or f"{store}.jks"
    pem = f"{file.rpartition('.')[0] or file}.pem"
    if store == "truststore":
        command = f"keytool -list -rfc -keystore {file} > {pem}"
    elif kind == "PKCS12":
        command = f"openssl pkcs12 -in {file} -out {pem}"
    else:
        command = (
            f"keytool -importkeystore -srckeystore {file} -destkeystore {store}.p12 "
            f"-deststoretype PKCS12 && openssl pkcs12 -in {store}.p12 -out {pem}"
        )
    return ConfigError(
        f"the {store} has Java's format {kind}, which is not read here: convert it with `{command}`, "
        f"then set ssl.{store}.location={pem} and ssl.{store}.type=PEM"
    )


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a cipher suite of TLS 1.2 that has Java's (IANA's) name."""
    if not suite.startswith("TLS_") or "_WITH_" not in suite:
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    cipher = (
        cipher.replace("_CBC_", "_").replace("AES_", "AES").replace("POLY1305_SHA256", "POLY1305")
    )
    parts = [] if exchange == "RSA" else [exchange]
    return "-".join((*parts, cipher)).replace("_", "-")
