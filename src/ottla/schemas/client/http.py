"""The settings of httpx for a registry's client, and its failures."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from ottla.config.security import SecurityConfig
from ottla.schemas.client.exchange import Unreachable
from ottla.schemas.config import RegistryConfig
from ottla.schemas.extra import require
from ottla.tls.contexts import client_context

if TYPE_CHECKING:
    import httpx


def httpx_arguments(config: RegistryConfig, security: SecurityConfig) -> dict[str, Any]:
    """The arguments of `httpx.Client` and `httpx.AsyncClient`."""
    module = require("httpx", "a schema registry's client")
    arguments: dict[str, Any] = {
        "timeout": module.Timeout(
            config.http_read_timeout_ms / 1000, connect=config.http_connect_timeout_ms / 1000
        )
    }
    if any(address.startswith("https:") for address in config.addresses):
        arguments["verify"] = client_context(security)
    if config.proxy is not None:
        arguments["proxy"] = config.proxy
    return arguments


def unreachable(error: httpx.HTTPError) -> Unreachable:
    """Why there was no answer."""
    module = require("httpx", "a schema registry's client")
    was_sent = not isinstance(error, module.ConnectError | module.ConnectTimeout)
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    is_untrusted = any(isinstance(each, ssl.SSLCertVerificationError) for each in causes)
    return Unreachable(str(error) or type(error).__name__, was_sent, is_untrusted)
