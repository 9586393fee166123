"""Requests of a producer to coordinators: producer ids, partitions and offsets of transactions, commit and abort.

One request at a time, as in Kafka's client. A request is repeated until its outcome is known. A caller whose timeout is
over before calls the same method again, and waits for the same request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from ottla.client.aio.producer.coordinator_client import CoordinatorClient, RequestFailedError
from ottla.client.aio.producer.coordinator_requests import (
    FIRST_INIT_THAT_BUMPS,
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    init_transactional_id,
    txn_offset_commit,
)
from ottla.client.aio.producer.producer_context import ProducerContext
from ottla.client.aio.producer.sender import Sender
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.state.producer.producer_batch import NO_IDENTITY, ProducerIdentity
from ottla.client.state.producer.sequences import Sequences
from ottla.client.state.producer.transactions import (
    CoordinatorErrorAction,
    Operation,
    ProducerPhase,
    Transactions,
    as_abortable,
    as_fatal,
)
from ottla.errors import (
    CommitFailedError,
    ErrorCode,
    KafkaError,
    TimedOutError,
    exception_for,
)
from ottla.model import TopicPartition

log = logging.getLogger("ottla.client")

T = TypeVar("T")

TRANSACTION_VERSION: Final = "transaction.version"
_FIRST_IMPLICIT_VERSION: Final = 2


class Transactor:
    """Makes the requests of one producer to its coordinators; on the loop's thread only."""

    def __init__(self, context: ProducerContext, sequences: Sequences, sender: Sender) -> None:
        self._network = context.network
        self._coordinators = CoordinatorClient(context.network, context.random_unit)
        self._config = context.config
        self._accumulator = context.accumulator
        self._sequences = sequences
        self._transactions = context.transactions
        self._sender = sender
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    @property
    def last_error(self) -> KafkaError | None:
        """Why the request that is being repeated has not succeeded yet."""
        return self._coordinators.last_error

    # Requests of the sender

    def request_identity(self) -> None:
        """Get a producer id for an idempotent producer."""
        self._start("identity", self._get_identity())

    def request_partitions(self) -> None:
        """Add the partitions of new records to the transaction."""
        self._start("partitions", self._add_partitions())

    def _start(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        if name in self._tasks:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[name] = task

        def done(task: asyncio.Task[Any]) -> None:
            self._tasks.pop(name, None)
            if task.cancelled():
                return  # the producer is being closed
            if (error := task.exception()) is not None:
                log.error("a request to the coordinator failed unexpectedly", exc_info=error)
                self._sender.fail(error)
            self._sender.wake()

        task.add_done_callback(done)

    async def _get_identity(self) -> None:
        try:
            response = await self._coordinators.call(init_producer_id())
        except RequestFailedError as failed:
            self._sender.fail(failed.error)
            return
        self._sequences.set_identity(
            ProducerIdentity(response.producer_id, response.producer_epoch)
        )

    async def _add_partitions(self) -> None:
        transactions = self._require_transactions()
        transaction = self._accumulator.transaction
        assert transaction is not None
        async with self._turn:
            while transaction.new or transaction.pending:
                if transactions.error is not None or transactions.is_aborting:
                    return
                with self._accumulator.lock:
                    keys = transaction.begin_adding()
                try:
                    await self._coordinators.call(
                        add_partitions_to_txn(
                            self._id, self._sequences.identity, keys, is_first=not transaction.added
                        ),
                        self._is_given_up,
                    )
                except RequestFailedError as failed:
                    with self._accumulator.lock:
                        transaction.was_refused(keys)
                    self._failed(failed)
                    return
                with self._accumulator.lock:
                    transaction.was_added(keys)
                self._sender.wake()

    # Operations

    async def run(self, operation: Operation, is_new: bool) -> None:
        """Begin an operation unless it has begun, and wait for it up to max.block.ms."""
        if is_new:
            self.start(operation)
            self._sender.wake()
        waiting = asyncio.get_running_loop().create_task(operation.wait_async())
        await self._within_max_block(waiting, operation.method)
        operation.is_seen = True
        if operation.error is not None:
            raise operation.error

    async def _within_max_block(self, task: asyncio.Task[T], method: str) -> T:
        """Wait for a task, which goes on if max.block.ms are over before it has ended."""
        limit_ms = self._config.max_block_ms
        # The caller may stop waiting, by the time limit or cancelled: then nothing else reads the task's error.
        task.add_done_callback(_retrieve_exception)
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await asyncio.shield(task)
        except TimeoutError:
            if task.done():
                return task.result()
            why = f"{method}() is not done after {limit_ms} ms; call it again to go on."
            last_error = self.last_error or self._network.trouble
            if last_error is not None:
                why += f" The last error: {last_error}"
            raise TimedOutError(
                message=why,
                context={"api": method, "transactional_id": self._config.transactional_id},
            ) from last_error

    def start(self, operation: Operation) -> None:
        """Begin an operation that the program called."""
        work = {
            ProducerPhase.INITIALIZING: self._init,
            ProducerPhase.COMMITTING: self._commit,
            ProducerPhase.ABORTING: self._abort,
        }[operation.target]
        self._start(operation.method, self._operate(operation, work))

    async def _operate(
        self, operation: Operation, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        try:
            await work()
        except RequestFailedError as failed:
            operation.fail(self._failed(failed))
        except asyncio.CancelledError:
            operation.fail(
                exception_for(
                    ErrorCode.NETWORK_EXCEPTION, "The producer was closed.", api=operation.method
                )
            )
            raise
        except BaseException as error:
            operation.fail(error)
            raise
        else:
            operation.succeed()
        finally:
            self._sender.wake()

    async def _init(self) -> None:
        transactions = self._require_transactions()
        async with self._turn:
            try:
                await self._get_epoch(NO_IDENTITY)
            except RequestFailedError as failed:
                if failed.error.code in _AUTHORIZATION_ERRORS:
                    transactions.not_initialized()
                    raise RequestFailedError(failed.error, CoordinatorErrorAction.RETRY) from failed
                raise
            transactions.is_version_2 = self._has_version_2
            transactions.initialized()

    async def _get_epoch(self, current: ProducerIdentity) -> None:
        def note(version: int) -> None:
            self._require_transactions().can_bump = version >= FIRST_INIT_THAT_BUMPS

        timeout_ms = self._config.transaction_timeout_ms
        response = await self._coordinators.call(
            init_transactional_id(self._id, current, timeout_ms, note)
        )
        self._sequences.restart_all(ProducerIdentity(response.producer_id, response.producer_epoch))

    async def _commit(self) -> None:
        transactions = self._require_transactions()
        await self._sender.idle()
        async with self._turn:
            if transactions.error is not None:
                raise RequestFailedError(transactions.error, CoordinatorErrorAction.ABORT)
            await self._end_transaction(is_commit=True)

    async def _abort(self) -> None:
        # The sender drops unsent batches. Those in flight have to end first, or they could arrive after the abort.
        self._sender.wake()
        await self._sender.idle()
        async with self._turn:
            await self._end_transaction(is_commit=False)

    async def _end_transaction(self, *, is_commit: bool) -> None:
        transactions = self._require_transactions()
        transaction = self._accumulator.transaction
        assert transaction is not None
        error = transactions.error
        # A coordinator that has no state of the producer has no transaction to end.
        is_forgotten = error is not None and error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if transaction.is_started and not is_forgotten:
            await self._ask_to_end(is_commit=is_commit)
        if not transactions.is_version_2 and self._has_version_2:
            # The cluster was upgraded: transactions of version 2 begin with a new epoch.
            transactions.needs_init = transactions.needs_init or transactions.can_bump
        transactions.ended()
        if transactions.needs_init:
            await self._get_epoch(self._sequences.identity)
            transactions.is_version_2 = self._has_version_2
            transactions.initialized()

    async def _ask_to_end(self, *, is_commit: bool) -> None:
        response = await self._coordinators.call(
            end_txn(
                self._id,
                self._sequences.identity,
                is_commit=is_commit,
                is_version_2=self._require_transactions().is_version_2,
            )
        )
        if response.producer_id >= 0:
            # Version 2: every transaction has its own epoch (KIP-890).
            self._sequences.restart_all(
                ProducerIdentity(response.producer_id, response.producer_epoch)
            )

    # Offsets

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        method: str,
    ) -> None:
        """Commit a group's positions with the transaction; wait for that up to max.block.ms."""
        sending = asyncio.get_running_loop().create_task(self._send_offsets(offsets, group, method))
        await self._within_max_block(sending, method)

    async def _send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        method: str,
    ) -> None:
        transactions = self._require_transactions()
        transaction = self._accumulator.transaction
        assert transaction is not None
        async with self._turn:
            transactions.check_open(method)
            try:
                if transaction.is_implicit:
                    transaction.is_started = True
                elif group.group_id not in transaction.groups:
                    await self._coordinators.call(
                        add_offsets_to_txn(self._id, self._sequences.identity, group.group_id),
                        self._is_given_up,
                    )
                    transaction.groups[group.group_id] = None
                    transaction.is_started = True
                await self._coordinators.call(
                    txn_offset_commit(
                        self._id,
                        self._sequences.identity,
                        dict(offsets),
                        group,
                        is_version_2=transaction.is_implicit,
                    ),
                    self._is_given_up,
                )
            except RequestFailedError as failed:
                if transactions.is_aborting and failed.action is not CoordinatorErrorAction.DIE:
                    # The call was cancelled, and the program aborts already: the abort must not fail for this.
                    raise as_abortable(failed.error) from failed.error.__cause__
                raise self._failed(failed) from failed.error.__cause__
            finally:
                self._sender.wake()

    def _is_given_up(self) -> bool:
        """Whether the transaction is to be aborted: requests that add to it would only delay that."""
        return self._require_transactions().drops_unsent

    def _failed(self, failed: RequestFailedError) -> KafkaError:
        """Change the state of the producer after a failed request; the error for the caller."""
        transactions = self._require_transactions()
        error, action = failed.error, failed.action
        if action is CoordinatorErrorAction.DIE:
            fatal = as_fatal(error)
            self._sender.fail(fatal)
            return fatal
        if action is CoordinatorErrorAction.RETRY:
            return error
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            message = f"The group has moved on, so its offsets were not committed: {error.message}"
            error = CommitFailedError(error.code, message, error.context)
        error = as_abortable(error)
        transactions.must_abort(error, action)
        if transactions.state is ProducerPhase.DEAD and transactions.error is not None:
            return transactions.error
        return error

    def _require_transactions(self) -> Transactions:
        assert self._transactions is not None
        return self._transactions

    @property
    def _id(self) -> str:
        return self._require_transactions().transactional_id

    @property
    def _has_version_2(self) -> bool:
        return self._network.features.get(TRANSACTION_VERSION, 0) >= _FIRST_IMPLICIT_VERSION

    async def finished(self) -> None:
        """Wait until all requests have ended."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Cancel all requests."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task that no caller awaits any more, or the loop would log it."""
    if not task.cancelled():
        task.exception()


_AUTHORIZATION_ERRORS: Final = frozenset(
    {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
)
"""An administrator may grant the permission: init_transactions() can be called again."""
