"""Settings for the whole suite."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import threading
from collections.abc import Generator
from importlib.metadata import entry_points

import pytest
from hypothesis import settings
from tests.lasting import LASTING

pytest_plugins = ["tests.second_chances", "tests.quick_folders"]
# An installed package has registered its pytest plugin already; a source tree on the path has not.
if not entry_points(group="pytest11", name="ottla"):
    pytest_plugins.append("ottla.testing.plugin")

# A shell's background job ignores Ctrl-C, and so would all processes that the tests of Ctrl-C start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def interrupts_raise() -> None:
    """Every test begins with Python's own handler of Ctrl-C, whatever a loop or a library before it has left."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Wall-clock deadlines fail on busy machines. Every run has the same examples, so that a red one is about the change;
# `make campaign` looks for others with the profile "search", and what it finds becomes a test with a name.
settings.register_profile("fixed", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile("search", deadline=None, database=None, print_blob=True)
settings.load_profile(os.environ.get("OTTLA_EXAMPLES", "fixed"))


@pytest.fixture(scope="session")
def ottla_broker_options() -> dict[str, object]:
    return {**LASTING, "log.retention.hours": 168}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are no garbage: the collector need not look at them, neither now nor during the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that share a Spark session stay together, and what takes long begins early."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items[:] = _in_shares(items, workers)
    for item in filter(_shares_spark, items):
        # One that is given up in mid-sentence with Java takes the session with it: busy machines get their time.
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))


def _in_shares(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """With --dist worksteal, workers begin with equally many tests each, and later take from the ends of others'.

    The first has Spark's at the beginning, so that one session is enough, and the others the long ones. None of these
    is left for the end of the run, where the other workers would wait for it.
    """
    heads: list[list[pytest.Item]] = [[] for _ in range(workers)]
    rest = []
    long_ones = itertools.cycle(heads[1:] or heads)
    for item in items:
        if _shares_spark(item):
            heads[0].append(item)
        elif item.get_closest_marker("long") is not None:
            next(long_ones).append(item)
        else:
            rest.append(item)
    ordered: list[pytest.Item] = []
    for number, head in enumerate(heads):
        share = (len(items) - len(ordered)) // (workers - number)
        filling = max(0, share - len(head))
        ordered += head + rest[:filling]
        del rest[:filling]
    return ordered


def _shares_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())
