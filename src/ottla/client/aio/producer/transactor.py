"""The producer's conversation with coordinators: ids, partitions and offsets of transactions, their ends.

One request at a time, as in Kafka's client. A request is repeated until its outcome is known: those who wait for it may
give up earlier, and find it where it is when they call again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from ottla.client.aio.network.brokers import Network
from ottla.client.aio.network.connection import Connection
from ottla.client.aio.network.coordinator_cache import KEY_GROUP
from ottla.client.aio.producer.coordinator_requests import (
    FIRST_INIT_THAT_BUMPS,
    Ask,
    ask_for_epoch,
    ask_for_id,
    ask_to_add_group,
    ask_to_add_partitions,
    ask_to_commit_offsets,
    ask_to_end,
)
from ottla.client.aio.producer.sender import Sender
from ottla.client.model import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.client.state.producer.accumulator import Accumulator
from ottla.client.state.producer.producer_batch import NO_IDENTITY, ProducerIdentity
from ottla.client.state.producer.sequences import Sequences
from ottla.client.state.producer.transactions import (
    CoordinatorErrorAction,
    Operation,
    ProducerPhase,
    Transactions,
    as_abortable,
    as_fatal,
    verdict_on,
)
from ottla.config.producer import ProducerConfig
from ottla.errors import (
    AbortableError,
    CommitFailedError,
    ErrorCode,
    KafkaError,
    exception_for,
)
from ottla.model import TopicPartition

log = logging.getLogger("ottla.client")

TRANSACTION_VERSION: Final = "transaction.version"
_FIRST_IMPLICIT_VERSION: Final = 2


class _FailedError(Exception):
    """A request failed for good; what that means for the transaction is in the verdict."""

    def __init__(self, error: KafkaError, verdict: CoordinatorErrorAction) -> None:
        super().__init__(error, verdict)
        self.error = error
        self.verdict = verdict


class Transactor:
    """Asks coordinators on behalf of one producer; on the loop's thread only."""

    def __init__(
        self,
        network: Network,
        config: ProducerConfig,
        accumulator: Accumulator,
        sequences: Sequences,
        transactions: Transactions | None,
        sender: Sender,
        random_unit: Callable[[], float],
    ) -> None:
        self._network = network
        self._config = config
        self._accumulator = accumulator
        self._sequences = sequences
        self._transactions = transactions
        self._sender = sender
        self._random_unit = random_unit
        self.trouble: KafkaError | None = None
        """Why the request that is being repeated has not succeeded yet."""
        self._turn = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    # What the sender wants

    def want_identity(self) -> None:
        """Get a producer id for an idempotent producer."""
        self._start("identity", self._get_identity())

    def want_partitions(self) -> None:
        """Tell the coordinator of partitions with new records."""
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
                return  # the producer or the loop ends: nothing is begun any more
            if (error := task.exception()) is not None:
                log.error("the conversation with the coordinator failed", exc_info=error)
                self._sender.fail(error)
            self._sender.wake()

        task.add_done_callback(done)

    async def _get_identity(self) -> None:
        try:
            response = await self._ask(ask_for_id())
        except _FailedError as failed:
            self._sender.fail(failed.error)
            return
        self._sequences.set_identity(
            ProducerIdentity(response.producer_id, response.producer_epoch)
        )

    async def _add_partitions(self) -> None:
        transactions = self._known()
        transaction = self._accumulator.transaction
        assert transaction is not None
        async with self._turn:
            while transaction.new or transaction.pending:
                if transactions.error is not None or transactions.is_aborting:
                    return
                with self._accumulator.lock:
                    keys = transaction.begin_adding()
                try:
                    await self._ask(
                        ask_to_add_partitions(
                            self._id, self._sequences.identity, keys, is_first=not transaction.added
                        ),
                        self._is_given_up,
                    )
                except _FailedError as failed:
                    with self._accumulator.lock:
                        transaction.was_refused(keys)
                    self._failed(failed)
                    return
                with self._accumulator.lock:
                    transaction.was_added(keys)
                self._sender.wake()

    # Operations

    def start(self, operation: Operation) -> None:
        """Begin what a user asked for."""
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
        except _FailedError as failed:
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
        transactions = self._known()
        async with self._turn:
            try:
                await self._get_epoch(NO_IDENTITY)
            except _FailedError as failed:
                if failed.error.code in _CURABLE_BY_OTHERS:
                    transactions.not_initialized()
                    raise _FailedError(failed.error, CoordinatorErrorAction.RETRY) from failed
                raise
            transactions.is_version_2 = self._has_version_2
            transactions.initialized()

    async def _get_epoch(self, current: ProducerIdentity) -> None:
        def note(version: int) -> None:
            self._known().can_bump = version >= FIRST_INIT_THAT_BUMPS

        timeout_ms = self._config.transaction_timeout_ms
        response = await self._ask(ask_for_epoch(self._id, current, timeout_ms, note))
        self._sequences.restart_all(ProducerIdentity(response.producer_id, response.producer_epoch))

    async def _commit(self) -> None:
        transactions = self._known()
        await self._sender.idle()
        async with self._turn:
            if transactions.error is not None:
                raise _FailedError(transactions.error, CoordinatorErrorAction.ABORT)
            await self._end_transaction(is_commit=True)

    async def _abort(self) -> None:
        # The sender drops what was not sent; what was has to end before, or it could come after the abort.
        self._sender.wake()
        await self._sender.idle()
        async with self._turn:
            await self._end_transaction(is_commit=False)

    async def _end_transaction(self, *, is_commit: bool) -> None:
        transactions = self._known()
        transaction = self._accumulator.transaction
        assert transaction is not None
        error = transactions.error
        # A coordinator that has forgotten our id has no transaction to end.
        is_forgotten = error is not None and error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if transaction.is_started and not is_forgotten:
            await self._ask_to_end(is_commit=is_commit)
        if not transactions.is_version_2 and self._has_version_2:
            # The cluster was upgraded: transactions of version 2 begin with an epoch of their own.
            transactions.needs_init = transactions.needs_init or transactions.can_bump
        transactions.ended()
        if transactions.needs_init:
            await self._get_epoch(self._sequences.identity)
            transactions.is_version_2 = self._has_version_2
            transactions.initialized()

    async def _ask_to_end(self, *, is_commit: bool) -> None:
        response = await self._ask(
            ask_to_end(
                self._id,
                self._sequences.identity,
                is_commit=is_commit,
                is_version_2=self._known().is_version_2,
            )
        )
        if response.producer_id >= 0:
            # Version 2: every transaction has its own epoch (KIP-890).
            self._sequences.restart_all(
                ProducerIdentity(response.producer_id, response.producer_epoch)
            )

    # Offsets

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Make a group's positions part of the transaction."""
        transactions = self._known()
        transaction = self._accumulator.transaction
        assert transaction is not None
        async with self._turn:
            transactions.check_open("send_offsets_to_transaction")
            try:
                if transaction.is_implicit:
                    transaction.is_started = True
                elif group.group_id not in transaction.groups:
                    await self._ask(
                        ask_to_add_group(self._id, self._sequences.identity, group.group_id),
                        self._is_given_up,
                    )
                    transaction.groups[group.group_id] = None
                    transaction.is_started = True
                await self._ask(
                    ask_to_commit_offsets(
                        self._id,
                        self._sequences.identity,
                        dict(offsets),
                        group,
                        is_version_2=transaction.is_implicit,
                    ),
                    self._is_given_up,
                )
            except _FailedError as failed:
                raise self._failed(failed) from failed.error.__cause__
            finally:
                self._sender.wake()

    # Asking

    async def _ask(self, ask: Ask, is_moot: Callable[[], bool] | None = None) -> Any:
        """Ask until there is an answer that ends it, or it is moot; _FailedError if that is not success."""
        attempt = 0
        is_open = False
        self.trouble = None
        while True:
            try:
                connection, broker = await self._reach(ask)
                # Until the answer is there, nobody knows whether the coordinator did it.
                is_open = True
                version = connection.version_of(ask.request_class, ask.at_most)
                response = await connection.send(ask.build(version), version)
                is_open = False
            except KafkaError as error:
                verdict = verdict_on(error.code)
                if isinstance(error, AbortableError) and verdict is CoordinatorErrorAction.DIE:
                    verdict = CoordinatorErrorAction.ABORT
                if ask.key is None and not is_open:
                    # Any broker will do, and this one was not even asked: another may take our credentials.
                    verdict = CoordinatorErrorAction.RETRY
                failure = error
            else:
                worst, verdict = self._judge(ask, response, broker)
                if worst is None:
                    self.trouble = None
                    return response
                failure = worst
            if verdict not in (CoordinatorErrorAction.RETRY, CoordinatorErrorAction.FIND):
                raise _FailedError(failure, verdict)
            self.trouble = failure
            if verdict is CoordinatorErrorAction.FIND and ask.key is not None:
                self._network.forget_coordinator(*ask.key)
            if is_moot is not None and is_moot() and not is_open:
                raise _FailedError(failure, CoordinatorErrorAction.RETRY)
            log.debug("%s is asked again: %s", ask.api, failure)
            await asyncio.sleep(self._pause_ms(ask, failure, attempt) / 1000)
            attempt += 1

    def _is_given_up(self) -> bool:
        """Whether the transaction is to be aborted: what only adds to it would keep the abort waiting."""
        return self._known().drops_unsent

    def _pause_ms(self, ask: Ask, failure: KafkaError, attempt: int) -> float:
        pause_ms = self._network.retry.delay_ms(attempt, self._random_unit())
        if (
            failure.code is ErrorCode.CONCURRENT_TRANSACTIONS
            and ask.concurrent_backoff_ms is not None
        ):
            return min(pause_ms, ask.concurrent_backoff_ms)
        return pause_ms

    async def _reach(self, ask: Ask) -> tuple[Connection, str]:
        """A connection to whoever is to be asked."""
        network = self._network
        if ask.key is None:
            node_id = await network.any_node()
        else:
            node_id = await network.coordinator(*ask.key)
        return await network.connection(node_id), network.name_of(node_id)

    def _judge(
        self, ask: Ask, response: Any, broker: str
    ) -> tuple[KafkaError | None, CoordinatorErrorAction]:
        """The worst that an answer says."""
        worst: KafkaError | None = None
        worst_verdict = CoordinatorErrorAction.RETRY
        for key, number in ask.codes_of(response).items():
            if not number:
                continue
            code = ErrorCode(number)
            verdict = verdict_on(code)
            if worst is None or _WEIGHTS[verdict] > _WEIGHTS[worst_verdict]:
                context: dict[str, object] = {"api": ask.api, "broker": broker}
                if key is not None:
                    context["partition"] = str(key)
                if ask.key is not None:
                    context["group" if ask.key[0] == KEY_GROUP else "transactional_id"] = ask.key[1]
                worst = exception_for(code, None, **context)
                worst_verdict = verdict
        return worst, worst_verdict

    def _failed(self, failed: _FailedError) -> KafkaError:
        """What a failed request means for the producer; the error to show."""
        transactions = self._known()
        error, verdict = failed.error, failed.verdict
        if verdict is CoordinatorErrorAction.DIE:
            fatal = as_fatal(error)
            self._sender.fail(fatal)
            return fatal
        if verdict is CoordinatorErrorAction.RETRY:
            return error
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            message = f"The group has moved on, so its offsets were not committed: {error.message}"
            error = CommitFailedError(error.code, message, error.context)
        error = as_abortable(error)
        transactions.must_abort(error, verdict)
        if transactions.state is ProducerPhase.DEAD and transactions.error is not None:
            return transactions.error
        return error

    def _known(self) -> Transactions:
        assert self._transactions is not None
        return self._transactions

    @property
    def _id(self) -> str:
        return self._known().transactional_id

    @property
    def _has_version_2(self) -> bool:
        return self._network.features.get(TRANSACTION_VERSION, 0) >= _FIRST_IMPLICIT_VERSION

    async def finished(self) -> None:
        """Wait for what is being asked."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """Stop all that is asked."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_CURABLE_BY_OTHERS: Final = frozenset(
    {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
)
"""Refusals that an administrator may lift: init_transactions() can be called again."""

_WEIGHTS: Final = {
    CoordinatorErrorAction.RETRY: 0,
    CoordinatorErrorAction.FIND: 1,
    CoordinatorErrorAction.ABORT: 2,
    CoordinatorErrorAction.BUMP: 3,
    CoordinatorErrorAction.DIE: 4,
}
