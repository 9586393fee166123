"""The shop as a process: on a cluster that is named, or with a broker and a console of its own.

python -m tests.console.shop                   # opens http://127.0.0.1:8080 to look at
python -m tests.console.shop 127.0.0.1:9092    # prints `open` and the registry's address, and ends with its stdin
"""

from __future__ import annotations

import sys

from tests.console.serving import serving
from tests.console.shop.opening import BROKER_OPTIONS, open_shop

import ottla


def main(arguments: list[str]) -> None:
    """Open until stdin ends."""
    if arguments:
        with open_shop(arguments[0]) as registry_url:
            print(f"open {registry_url}", flush=True)
            sys.stdin.read()
        return
    with (
        ottla.Broker(BROKER_OPTIONS, metrics="127.0.0.1:0") as broker,
        open_shop(broker.bootstrap_servers) as registry_url,
        serving(
            broker.bootstrap_servers,
            registry_url=registry_url,
            internals_url=broker.metrics_url.removesuffix("/metrics"),
        ) as console,
    ):
        print(f"the shop is open, its console is at {console.url}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
