"""The options of an admin client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ottla.config.client import ClientConfig
from ottla.config.client_not_served import ADMIN_OPTIONS_NOT_SERVED
from ottla.config.options import Importance, OptionType, option
from ottla.errors import ConfigError

INT_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class AdminConfig(ClientConfig):
    """The options of one admin client."""

    kind: ClassVar[str] = "admin option"
    id_prefix: ClassVar[str] = "adminclient"
    not_served: ClassVar[Mapping[str, str]] = ADMIN_OPTIONS_NOT_SERVED

    connections_max_idle_ms: int = option(
        OptionType.LONG,
        300_000,
        at_least=-1,
        doc="How long a connection may be idle before it is closed; -1 keeps it.",
    )
    default_api_timeout_ms: int = option(
        OptionType.INT,
        60_000,
        at_least=0,
        doc="How long calls may take that have no timeout of their own.",
    )
    retries: int = option(
        OptionType.INT,
        INT_MAX,
        at_least=0,
        doc="How often a call is tried again; default.api.timeout.ms is the better limit.",
        importance=Importance.LOW,
    )

    def settle(self) -> None:
        """The timeout of calls is not shorter than that of their requests: the one that is a default gives way."""
        super().settle()
        if self.default_api_timeout_ms >= self.request_timeout_ms:
            return
        if "default.api.timeout.ms" not in self.given:
            self._give_way(
                "default.api.timeout.ms",
                self.request_timeout_ms,
                "request.timeout.ms was given and is above the default",
            )
        elif "request.timeout.ms" not in self.given and self.default_api_timeout_ms > 0:
            self._give_way(
                "request.timeout.ms",
                self.default_api_timeout_ms,
                "default.api.timeout.ms was given and is below the default",
            )

    def validate(self) -> None:
        """Check the rules between options."""
        super().validate()
        if self.default_api_timeout_ms < self.request_timeout_ms:
            raise ConfigError(
                f"default.api.timeout.ms ({self.default_api_timeout_ms}) is below "
                f"request.timeout.ms ({self.request_timeout_ms}): raise it or lower the other"
            )
