"""The options of an admin client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ottla.config.client import ClientConfig
from ottla.config.options import INT_MAX, Importance, OptionType, option
from ottla.config.unsupported_client_options import UNSUPPORTED_ADMIN_OPTIONS
from ottla.errors import ConfigError


@dataclass(frozen=True)
class AdminConfig(ClientConfig):
    """The options of one admin client."""

    kind: ClassVar[str] = "admin option"
    id_prefix: ClassVar[str] = "adminclient"
    unsupported: ClassVar[Mapping[str, str]] = UNSUPPORTED_ADMIN_OPTIONS

    connections_max_idle_ms: int = option(
        OptionType.LONG,
        300_000,
        at_least=-1,
        doc="How long a connection may be idle before the client closes it; -1 keeps it open.",
    )
    default_api_timeout_ms: int = option(
        OptionType.INT,
        60_000,
        at_least=0,
        doc="The timeout of calls that are given none.",
    )
    retries: int = option(
        OptionType.INT,
        INT_MAX,
        at_least=0,
        doc="How often a call is tried again; default.api.timeout.ms is usually the better limit.",
        importance=Importance.LOW,
    )

    def adjust_defaults(self) -> None:
        """A call must not time out before its requests: adjust the timeout that was not given."""
        super().adjust_defaults()
        if self.default_api_timeout_ms >= self.request_timeout_ms:
            return
        if "default.api.timeout.ms" not in self.given:
            self._replace_default(
                "default.api.timeout.ms",
                self.request_timeout_ms,
                "request.timeout.ms was given and is above the default",
            )
        elif "request.timeout.ms" not in self.given and self.default_api_timeout_ms > 0:
            self._replace_default(
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
