"""Every request of a transaction, in every state of its id, by the producer itself and by others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker.txn_errors.stage import REQUESTS
from tests.broker.txn_errors.table import SITUATIONS, Ready, Situation, expected, prepare

import ottla


@pytest.fixture(scope="module")
def ready() -> Iterator[Ready]:
    with ottla.Broker() as broker:
        yield prepare(broker.bootstrap_servers)


@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
def test_the_answer_is_the_one_of_the_rules(ready: Ready, situation: Situation) -> None:
    versions = REQUESTS[situation.request].versions
    wanted = {version: expected(situation, version) for version in versions}
    assert ready.answers(situation) == wanted
