"""Bad input to groups: every situation of the table, at every version that knows it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker.group_errors.stage import OPTIONS
from tests.broker.group_errors.table import SITUATIONS, Ready, prepare

from ottla.testing import Broker


@pytest.fixture(scope="module")
def ready() -> Iterator[Ready]:
    with Broker(OPTIONS) as broker:
        yield prepare(broker.bootstrap_servers, broker.clock.advance)


@pytest.mark.parametrize("title", SITUATIONS)
def test_the_answer_is_the_one_in_the_table(ready: Ready, title: str) -> None:
    situation = SITUATIONS[title]
    versions = ready.versions_of(situation)
    assert versions
    assert ready.answers(situation) == dict.fromkeys(versions, situation.expected)


def test_every_situation_has_a_title_of_its_own() -> None:
    assert len(SITUATIONS) > 140
    # A difference from Kafka has a reason.
    assert all((one.kafka is None) == (not one.why) for one in SITUATIONS.values())
