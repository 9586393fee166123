"""Settings for the whole suite."""

from __future__ import annotations

import os
from importlib.metadata import entry_points

import pytest
from hypothesis import settings

# An installed package has registered its pytest plugin already; a source tree on the path has not.
if not entry_points(group="pytest11", name="ottla"):
    pytest_plugins = ["ottla.testing.plugin"]

# Wall-clock deadlines fail on busy machines; CI repeats the same examples, so that a red run is
# about the change.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a Spark session come first: xdist then gives them to one worker, and one session is enough."""
    items.sort(key=lambda item: not _shares_spark(item))
    for item in filter(_shares_spark, items):
        # One that is given up in mid-sentence with Java takes the session with it: busy machines get their time.
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))


def _shares_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())
