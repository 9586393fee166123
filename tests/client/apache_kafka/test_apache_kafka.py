"""The essential behaviour of the clients, with the newest Apache Kafka."""

from __future__ import annotations

import pytest
from tests.client.apache_kafka import consuming, producing, reconciling, transacting
from tests.client.apache_kafka.reconciling import RECONCILING
from tests.client.apache_kafka.stage import CASES, Case, Stage


def test_every_case_is_registered() -> None:
    for module in (producing, transacting, consuming):
        named = {name for name in vars(module) if name.startswith("test_")}
        assert named == {case.name for case in CASES if case.body.__module__ == module.__name__}
    named = {name for name in vars(reconciling) if name.startswith("test_")}
    assert named == {case.name for case in RECONCILING}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.removeprefix("test_"))
def test_with_kafka(case: Case, stage: Stage) -> None:
    case.body(stage)


# With our broker in tests/client/groups/test_reconciling.py.
@pytest.mark.campaign
@pytest.mark.parametrize("case", RECONCILING, ids=lambda case: case.name.removeprefix("test_"))
def test_the_new_group_protocol_with_kafka(case: Case, stage: Stage) -> None:
    case.body(stage)
