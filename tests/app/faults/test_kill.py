"""An app and its broker are killed again and again: exactly once stays exactly once, and nothing is lost otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.faults.kill_run import kafka_broker, ottla_broker, run
from tests.app.faults.scenarios import SCENARIOS, Outcome, Scenario, inputs, problems


@pytest.mark.long
@pytest.mark.parametrize("name", ["key-32-tight"])
def test_each_order_is_billed_once_over_kills(tmp_path: Path, name: str) -> None:
    scenario = SCENARIOS[name]
    print(run(scenario, ottla_broker(tmp_path, scenario), tmp_path, orders=800, seconds=5))


@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_each_order_is_billed_once_over_many_kills(tmp_path: Path, name: str) -> None:
    scenario = SCENARIOS[name]
    broker = ottla_broker(tmp_path, scenario)
    rewinds = scenario.is_exact
    print(run(scenario, broker, tmp_path, orders=4000, seconds=40, rewinds=rewinds))


@pytest.mark.campaign
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SCENARIOS)
def test_each_order_is_billed_once_on_apache_kafka(tmp_path: Path, name: str) -> None:
    scenario = SCENARIOS[name]
    broker = kafka_broker(tmp_path, scenario)
    rewinds = scenario.is_exact
    print(run(scenario, broker, tmp_path, orders=2000, seconds=40, rewinds=rewinds))


ORDERS = inputs(200)
VALUES = [str(order).replace("'", '"').encode() for order in ORDERS]
DEAD = [value for value, order in zip(VALUES, ORDERS, strict=True) if order["kind"] == "poison"]
DONE = [value for value in VALUES if value not in DEAD]


def test_the_check_accepts_what_is_right() -> None:
    assert problems(SCENARIOS["key-32"], ORDERS, Outcome(DONE, DONE, DEAD)) == []


@pytest.mark.parametrize(
    ("outcome", "complaint"),
    [
        (Outcome(DONE[1:], DONE[1:], DEAD), "lost"),
        (Outcome([*DONE, DONE[-1]], [*DONE, DONE[-1]], DEAD), "duplicated"),
        (Outcome(DONE, DONE[1:], DEAD), "torn"),
        (Outcome([*DONE[1:], DONE[0]], DONE, DEAD), "comes behind"),
        (Outcome(DONE, DONE, DEAD[1:]), "poison"),
        (Outcome([*DONE, b'{"id": 999, "key": "x", "place": 0}'], DONE, DEAD), "never sent"),
    ],
)
def test_the_check_finds_what_is_wrong(outcome: Outcome, complaint: str) -> None:
    assert complaint in str(problems(SCENARIOS["key-32"], ORDERS, outcome))


def test_at_least_once_may_repeat_and_may_not_lose() -> None:
    relaxed: Scenario = SCENARIOS["at-least-once"]
    assert problems(relaxed, ORDERS, Outcome([*DONE, *DONE], DONE, DEAD)) == []
    assert problems(relaxed, ORDERS, Outcome(DONE[1:], DONE, DEAD)) != []
