"""The options about SASL of a broker's listeners, and of each mechanism there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from ottla.config.jaas import parse_jaas
from ottla.config.options import (
    Config,
    ConfigOption,
    Importance,
    OptionType,
    find_option,
    option,
    options_of,
    value_of,
)
from ottla.config.unsupported_broker_options import UNSUPPORTED_SASL_OPTIONS
from ottla.errors import ConfigError

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS: Final = (PLAIN, *SCRAM, OAUTHBEARER)

_MODULES: Final = "org.apache.kafka.common.security"
_LOGIN_MODULES: Final = {
    PLAIN: f"{_MODULES}.plain.PlainLoginModule",
    OAUTHBEARER: f"{_MODULES}.oauthbearer.OAuthBearerLoginModule",
    **dict.fromkeys(SCRAM, f"{_MODULES}.scram.ScramLoginModule"),
}
_USER: Final = "user_"
# What a login module of a broker looks like: only PLAIN's has users.
_EXAMPLE: Final = "{} required{};"
_USERS: Final = {**dict.fromkeys(MECHANISMS, ""), PLAIN: ' user_alice="secret"'}


@dataclass(frozen=True)
class MechanismConfig(Config):
    """The options that a mechanism of a listener can have of its own.

    With the prefix `listener.name.<name>.<mechanism>.`, the mechanism in lower case; without the mechanism, or
    without the whole prefix, they hold for all.
    """

    kind: ClassVar[str] = "option of SASL mechanisms"
    unsupported: ClassVar[Mapping[str, str]] = UNSUPPORTED_SASL_OPTIONS

    connections_max_reauth_ms: int = option(
        OptionType.LONG,
        0,
        doc="How long a client may use a connection before it has to authenticate again (KIP-368); "
        "0 is for ever, or until its token ends.",
    )
    sasl_jaas_config: str | None = option(
        OptionType.PASSWORD,
        None,
        doc="The login module of a mechanism, with the prefix listener.name.<name>.<mechanism>. only. "
        'For PLAIN it can list users beside those with SCRAM credentials: user_alice="secret".',
    )
    sasl_oauthbearer_clock_skew_seconds: int = option(
        OptionType.INT,
        30,
        at_least=0,
        doc="By how many seconds the clock of the tokens' issuer may differ.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = option(
        OptionType.LIST,
        None,
        doc="For whom a token may be: one of these has to be in its claim aud. Without any, a token "
        "must not have that claim.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_expected_issuer: str | None = option(
        OptionType.STRING,
        None,
        doc="Who has to have issued a token: its claim iss.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = option(
        OptionType.LONG,
        3_600_000,
        at_least=1,
        doc="How often the keys are fetched. A token with an unknown key makes the broker fetch them "
        "earlier.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = option(
        OptionType.LONG,
        10_000,
        at_least=1,
        doc="The longest time until the keys are fetched again after a failure.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = option(
        OptionType.LONG,
        100,
        at_least=1,
        doc="The time until the keys are fetched again after a first failure; it doubles.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = option(
        OptionType.STRING,
        None,
        doc="Where the keys are by which tokens are checked, a JWKS (RFC 7517): https:, http: or file:.",
    )
    sasl_oauthbearer_scope_claim_name: str = option(
        OptionType.STRING,
        "scope",
        doc="The claim with the scopes of a token.",
        importance=Importance.LOW,
    )
    sasl_oauthbearer_sub_claim_name: str = option(
        OptionType.STRING,
        "sub",
        doc="The claim with the user's name.",
        importance=Importance.LOW,
    )
    sasl_server_max_receive_size: int = option(
        OptionType.INT,
        65_536,
        at_least=1024,
        doc="The most bytes that a client may send at once before it has authenticated itself.",
    )

    def check_mechanism(self, mechanism: str, where: str) -> None:
        """Checks the options of a mechanism that is enabled; `where` names it in messages."""
        self.listed_passwords(mechanism, where)
        if mechanism != OAUTHBEARER:
            return
        if not self.sasl_oauthbearer_jwks_endpoint_url:
            raise ConfigError(
                f"{where} needs the keys of tokens: give sasl.oauthbearer.jwks.endpoint.url"
            )

    def listed_passwords(self, mechanism: str, where: str) -> Mapping[str, str]:
        """The passwords of the users that the login module lists, by name: PLAIN only."""
        if self.sasl_jaas_config is None:
            return {}
        try:
            entry = parse_jaas(
                self.sasl_jaas_config, _EXAMPLE.format(_LOGIN_MODULES[mechanism], _USERS[mechanism])
            )
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error
        if entry.module != _LOGIN_MODULES[mechanism]:
            raise ConfigError(
                f"{where}: sasl.jaas.config has to name {_LOGIN_MODULES[mechanism]}, not {entry.module}"
            )
        if mechanism != PLAIN:
            return {}
        return {
            name.removeprefix(_USER): password
            for name, password in entry.options.items()
            if name.startswith(_USER)
        }


@dataclass(frozen=True)
class SaslConfig(MechanismConfig):
    """The options about SASL that a listener can have of its own."""

    sasl_enabled_mechanisms: tuple[str, ...] = option(
        OptionType.LIST,
        SCRAM,
        choices=MECHANISMS,
        doc="The mechanisms by which clients can authenticate themselves.",
    )

    @classmethod
    def scoped_option(cls, name: str) -> ConfigOption | None:
        """The option that `plain.connections.max.reauth.ms` stands for; None for names without a mechanism."""
        for mechanism in MECHANISMS:
            prefix = f"{mechanism.lower()}."
            if name.startswith(prefix):
                known = find_option(MechanismConfig, name.removeprefix(prefix))
                return replace(known, name=name, aliases=())
        return None

    def of_mechanism(self, mechanism: str) -> MechanismConfig:
        """The options of a mechanism: its own, else those of the listener."""
        values: dict[str, Any] = {
            name: value_of(self, name) for name in options_of(MechanismConfig)
        }
        prefix = f"{mechanism.lower()}."
        for full_name, value in self.scoped.items():
            if full_name.startswith(prefix):
                values[full_name.removeprefix(prefix)] = value
        return MechanismConfig.read(values)

    def check_sasl(self, where: str) -> None:
        """Checks the rules between the options of a listener with SASL."""
        if not self.sasl_enabled_mechanisms:
            raise ConfigError(f"{where}: sasl.enabled.mechanisms is empty: give at least one")
        if self.sasl_jaas_config is not None:
            raise ConfigError(
                "sasl.jaas.config is about one mechanism of one listener: write "
                "listener.name.<name>.<mechanism>.sasl.jaas.config, both in lower case"
            )
        for mechanism in self.sasl_enabled_mechanisms:
            self.of_mechanism(mechanism).check_mechanism(mechanism, f"{where}, {mechanism}")
        for name in sorted(self.scoped):
            mechanism = name.partition(".")[0].upper()
            if mechanism not in self.sasl_enabled_mechanisms:
                raise ConfigError(
                    f"{name} has no effect: sasl.enabled.mechanisms of {where} has no {mechanism}"
                )


def is_about_sasl(option_name: str) -> bool:
    """Whether an option has an effect only where clients authenticate themselves by SASL."""
    return (
        option_name in options_of(SaslConfig) or SaslConfig.scoped_option(option_name) is not None
    )
