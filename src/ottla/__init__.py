"""Ottla: exactly-once event streaming for Python and Spark.

import ottla

with ottla.Broker() as broker:
    with ottla.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", value=b"one espresso")

The same clients for asyncio are in `ottla.aio`, what `ottla.Admin` takes and returns is in `ottla.admin`.
"""

import os

from ottla.names import MODULES, MOVED, NAMES
from ottla.version import VERSION
from ottla.worker_python import choose_this_python

__version__ = VERSION

# Has to happen before Spark's Java starts, whichever of our modules a program imports first.
choose_this_python(os.environ)

# Names are imported on first use, so that `import ottla` and the command line start quickly.
_HOMES = {name: home for home, names in NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in MODULES:
        return import_module(f"ottla.{name}")
    if name in MOVED:
        return _moved(name)
    if name not in _HOMES:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def _moved(name: str) -> object:
    from importlib import import_module
    from warnings import warn

    instead = MOVED[name]
    # The line of the program is two calls up.
    warn(f"ottla.{name} has moved: write {instead}", DeprecationWarning, stacklevel=3)
    home, _, new_name = instead.rpartition(".")
    return getattr(import_module(home), new_name)


def __dir__() -> list[str]:
    return [*__all__, *MODULES, "__version__", "__doc__"]
