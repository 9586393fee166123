"""What serializers and deserializers are to a client: a plugin with a registry, for keys or for values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.config.options import dotted_names
from ottla.errors import ConfigError
from ottla.schemas.config import is_registry_option
from ottla.schemas.serializers.lookups import AnyRegistryClient, Lookups, Registry, client_of


class RegistryPlugin:
    """A plugin of a client that asks a registry; `_own_options` are its options, those of the registry taken out."""

    def __init__(
        self,
        registry: Registry | None,
        config: Mapping[str, object] | None,
        options: Mapping[str, object],
    ) -> None:
        given = dotted_names({**(config or {}), **options})
        of_registry = {name: value for name, value in given.items() if is_registry_option(name)}
        self._own_options = {
            name: value for name, value in given.items() if name not in of_registry
        }
        self._lookups = Lookups(*client_of(registry, of_registry))
        self._is_key: bool | None = None

    @property
    def registry(self) -> AnyRegistryClient:
        """The client of the registry."""
        return self._lookups.client

    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        """Called by the producer or consumer."""
        if self._is_key is not None and self._is_key != is_key:
            raise ConfigError(
                f"one {type(self).__name__} is given for keys and for values: give each its own"
            )
        self._is_key = is_key

    def close(self) -> None:
        """Close the registry's client, if it was made for this plugin."""
        self._lookups.close()
