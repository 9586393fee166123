"""The reply to a Produce request whose appends take their time."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.requests.answer_timeouts import AnswerTimeouts
from ottla.broker.requests.produce_replies import _DurableResponse
from ottla.errors import ErrorCode
from ottla.ports import FencedError, StorageError
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (None, ErrorCode.NONE),
        (StorageError("the disk is gone"), ErrorCode.KAFKA_STORAGE_ERROR),
        (FencedError("claimed again"), ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_failed_in_the_turn_of_the_timeout_is_not_acknowledged(
    failure: StorageError | None, expected: ErrorCode
) -> None:
    """After a pause of the process the timer and the failure are due in one turn, the timer first."""

    async def main() -> tuple[int, int]:
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        first = PartitionProduceResponse(index=0, error_code=0, base_offset=5)
        second = PartitionProduceResponse(index=1, error_code=0, base_offset=7)
        pending = _DurableResponse(
            [(first, settled), (second, late)],
            AnswerTimeouts(),
            1000,
            ProduceResponse(responses=[]),
            lambda: None,
        )
        if failure is None:
            settled.set_result(None)
        else:
            settled.set_exception(failure)
        pending.time_out()
        assert pending.answer.done()
        late.set_result(None)
        await asyncio.sleep(0)
        return first.error_code, second.error_code

    assert asyncio.run(main()) == (expected, ErrorCode.REQUEST_TIMED_OUT)
