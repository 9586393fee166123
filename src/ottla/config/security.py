"""The options of clients about encryption, trust and authentication."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from ottla.config.jaas import JaasEntry, parse_jaas
from ottla.config.options import Importance, OptionType, option
from ottla.config.tls import TlsConfig
from ottla.config.unsupported_client_options import UNSUPPORTED_SHARED_OPTIONS
from ottla.errors import ConfigError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PLAIN = "PLAIN"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)

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


class Credentials(NamedTuple):
    """A user name and a password for PLAIN or SCRAM."""

    username: str
    password: str
    is_delegation_token: bool = False

    def __repr__(self) -> str:
        return f"Credentials(username={self.username!r}, password=(hidden))"


@dataclass(frozen=True)
class SecurityConfig(TlsConfig):
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
    ssl_endpoint_identification_algorithm: str = option(
        OptionType.STRING,
        "https",
        choices=("https", ""),
        ignore_case=True,
        doc="https checks that the broker's certificate is for its host name; "
        "an empty text disables the check.",
        importance=Importance.LOW,
    )

    def validate(self) -> None:
        """Check the rules between options."""
        self.check_tls()
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
