"""What our clients say at our broker where a user lacks a right; test_apache_kafka.py has the same at Apache Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.client.security import refusals
from tests.lasting import LASTING

import ottla
from ottla.event_loop import new_event_loop

USER = "bob"


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(LASTING, security="plain") as broker:
        yield broker


@pytest.mark.parametrize("case", refusals.CASES, ids=lambda case: case.__name__)
def test_what_is_not_allowed_is_said_at_once(broker: ottla.Broker, case: refusals.Case) -> None:
    stage = refusals.Stage(
        admin_options=broker.client_options(),
        options=broker.client_options(USER),
        principal=f"User:{USER}",
    )
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(refusals.play(case, stage))
