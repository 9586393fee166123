"""The tests of tests/broker/test_fetch.py over an engine whose reads are late."""

from __future__ import annotations

from tests.broker.test_fetch import *  # noqa: F403

# It asks for more bytes than there are: records that the engine had to fetch are returned when they are there.
del test_after_max_wait_comes_what_there_is  # noqa: F821
