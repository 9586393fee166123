"""The options about TLS that clients and listeners share: versions, cipher suites, stores of keys and certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ottla.config.options import Config, Importance, OptionType, option
from ottla.errors import ConfigError

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
_STORE_TYPES: Final = (PEM, PKCS12)
_STORE_SUFFIXES: Final = {".jks": "JKS", ".p12": PKCS12, ".pfx": PKCS12, ".pkcs12": PKCS12}

StoreName: TypeAlias = Literal["keystore", "truststore"]


@dataclass(frozen=True)
class TlsConfig(Config):
    """How connections are encrypted, what is trusted, and by which certificate this side is known."""

    ssl_protocol: str = option(
        OptionType.STRING,
        "TLSv1.3",
        choices=TLS_VERSIONS,
        doc="The highest version of TLS that is used.",
    )
    ssl_enabled_protocols: tuple[str, ...] = option(
        OptionType.LIST,
        TLS_VERSIONS,
        choices=TLS_VERSIONS,
        doc="The versions of TLS that are used.",
    )
    ssl_cipher_suites: tuple[str, ...] = option(
        OptionType.LIST,
        (),
        doc="The cipher suites of TLS 1.2 that are used, by their names in Java or OpenSSL; "
        "TLS 1.3 has to be disabled.",
        importance=Importance.LOW,
    )
    ssl_truststore_type: str = option(
        OptionType.STRING,
        PEM,
        doc="The format of the trust store: PEM or PKCS12. A file that ends with .p12, .pfx or "
        ".pkcs12 is read as PKCS12.",
    )
    ssl_truststore_location: str | None = option(
        OptionType.STRING,
        None,
        doc="A file with the trusted certificates. Clients trust those of the operating system if "
        "neither this nor ssl.truststore.certificates is set.",
        importance=Importance.HIGH,
    )
    ssl_truststore_password: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The password of a trust store in the format PKCS12.",
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
        PEM,
        doc="The format of the key store: PEM or PKCS12. A file that ends with .p12, .pfx or "
        ".pkcs12 is read as PKCS12.",
    )
    ssl_keystore_location: str | None = option(
        OptionType.STRING,
        None,
        doc="A file with the private key and its certificate chain.",
        importance=Importance.HIGH,
    )
    ssl_keystore_password: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The password of a key store in the format PKCS12.",
        importance=Importance.HIGH,
    )
    ssl_keystore_key: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The private key, as PEM text.",
        importance=Importance.HIGH,
    )
    ssl_keystore_certificate_chain: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The certificate chain of the private key, as PEM text.",
        importance=Importance.HIGH,
    )
    ssl_key_password: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The password of the private key, if that is encrypted.",
        importance=Importance.HIGH,
    )

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

    @property
    def has_truststore(self) -> bool:
        """Whether trusted certificates are given."""
        return bool(self.ssl_truststore_location or self.ssl_truststore_certificates)

    @property
    def has_keystore(self) -> bool:
        """Whether a private key is given."""
        return bool(self.ssl_keystore_location or self.ssl_keystore_key)

    def store_type(self, store: StoreName) -> str:
        """The format of a store: what its file's name says, else its type."""
        location = self._of_store(store, "location")
        for suffix, kind in _STORE_SUFFIXES.items():
            if location is not None and location.lower().endswith(suffix):
                return kind
        return (self._of_store(store, "type") or PEM).upper()

    def _of_store(self, store: StoreName, what: str) -> str | None:
        value: str | None = getattr(self, f"ssl_{store}_{what}")
        return value

    def check_tls(self) -> None:
        """Check the rules between options of TLS; raise a ConfigError that says what to change."""
        self._check_stores()
        self._check_versions()

    def _check_stores(self) -> None:
        stores: tuple[StoreName, ...] = ("truststore", "keystore")
        for store in stores:
            kind, location = self.store_type(store), self._of_store(store, "location")
            if kind not in _STORE_TYPES:
                raise _store_refused(store, kind, location)
            if kind == PKCS12 and location is None:
                raise ConfigError(
                    f"ssl.{store}.type=PKCS12 needs a file: give ssl.{store}.location"
                )
            if kind == PEM and self._of_store(store, "password") is not None:
                raise ConfigError(
                    f"ssl.{store}.password has no effect: PEM files have no password. Remove it, "
                    "or give the password of an encrypted private key as ssl.key.password"
                )
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

    def _check_versions(self) -> None:
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


def _store_refused(store: StoreName, kind: str, location: str | None) -> ConfigError:
    """The error for a store in a format that is not read, with the command that converts one of Java."""
    if kind != "JKS":
        return ConfigError(f"ssl.{store}.type={kind} is not available: use PEM or PKCS12")
    file = location or f"{store}.jks"
    stem = file.rpartition(".")[0] or file
    if store == "truststore":
        command = f"keytool -list -rfc -keystore {file} > {stem}.pem"
        converted, kind = f"{stem}.pem", PEM
    else:
        command = (
            f"keytool -importkeystore -srckeystore {file} -destkeystore {stem}.p12 "
            "-deststoretype PKCS12"
        )
        converted, kind = f"{stem}.p12", PKCS12
    return ConfigError(
        f"the {store} has Java's format JKS, which is not read here: convert it with `{command}`, "
        f"then set ssl.{store}.location={converted} and ssl.{store}.type={kind}"
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
