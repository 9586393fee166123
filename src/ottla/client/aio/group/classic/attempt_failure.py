"""A refused JoinGroup or SyncGroup: the rebalance starts again, or the program gets the error."""

from __future__ import annotations

from ottla.client.aio.group.coordinator import CoordinatorLink
from ottla.client.state.group.membership import AfterError
from ottla.errors import KafkaError, exception_for


class AttemptFailedError(Exception):
    """The coordinator refused JoinGroup or SyncGroup; `next` is the next step, `cause` the reason."""

    def __init__(self, next_step: AfterError, cause: KafkaError) -> None:
        super().__init__(next_step, cause)
        self.next = next_step
        self.cause = cause


def attempt_failure(
    api: str, group_id: str, coordinator: CoordinatorLink, code: int, step: AfterError
) -> AttemptFailedError:
    """The exception for an error code; forgets the coordinator if the next step is to find another."""
    error = exception_for(code, None, api=api, group=group_id, broker=coordinator.broker)
    if step is AfterError.FIND_COORDINATOR:
        coordinator.forget(f"{api} was answered with {error.name}")
    return AttemptFailedError(step, error)
