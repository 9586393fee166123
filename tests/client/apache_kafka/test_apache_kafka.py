"""The essential behaviour of the clients, with the newest Apache Kafka."""

from __future__ import annotations

import pytest
from tests.client.apache_kafka import consuming, producing, transacting
from tests.client.apache_kafka.stage import CASES, Case, Stage


def test_every_case_is_registered() -> None:
    for module in (producing, transacting, consuming):
        named = {name for name in vars(module) if name.startswith("test_")}
        assert named == {case.name for case in CASES if case.body.__module__ == module.__name__}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.removeprefix("test_"))
def test_with_kafka(case: Case, stage: Stage) -> None:
    case.body(stage)
