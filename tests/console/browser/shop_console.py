"""A cluster with the shop in it, and what a console of it is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.console.shop.opening import BROKER_OPTIONS
from tests.console.shop.process import shop_process
from tests.lasting import LASTING

import ottla


class Shop(NamedTuple):
    """A cluster with the shop; `settings` are of ConsoleSettings."""

    servers: str
    settings: dict[str, Any]


@contextmanager
def ottla_shop() -> Iterator[Shop]:
    """The shop on our broker, which tells its internals."""
    with (
        ottla.Broker({**LASTING, **BROKER_OPTIONS}, metrics="127.0.0.1:0") as broker,
        shop_process(broker.bootstrap_servers) as registry_url,
    ):
        internals = broker.metrics_url.removesuffix("/metrics")
        settings = {"registry_url": registry_url, "internals_url": internals}
        yield Shop(broker.bootstrap_servers, settings)
