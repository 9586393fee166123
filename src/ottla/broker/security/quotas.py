"""The quotas that a node enforces: what its clients have used, and for how long they have to wait (KIP-13, KIP-124).

A request has a meter while some client of the cluster has a quota, and none otherwise.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from ottla.broker.options import NodeOptions
from ottla.broker.security.caller import Caller
from ottla.core.outcomes import Refused
from ottla.core.security.quotas.entities import QuotaKind
from ottla.core.security.quotas.rates import TokenBucket, WindowedRate, Windows
from ottla.core.security.quotas.table import AppliedQuota, ClientKey, QuotaTable
from ottla.core.security.quotas.usage import Usage, short
from ottla.errors import ErrorCode
from ottla.ports import Clock, monotonic_ms

# A request that takes the loop for the whole time uses this much of it.
WHOLE_LOOP_PERCENT: Final = 100.0
INT_MAX: Final = 2**31 - 1
USED_UP: Final = Refused(
    ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
)

MutationUsage = Usage[ClientKey, TokenBucket]
Permit = Callable[[int], Refused | None]
"""Asked before partitions are created or deleted."""


def unlimited(partitions: int) -> Refused | None:
    """The permit of callers without a quota."""
    return None


class Throttles:
    """Counts how often and for how long clients had to wait, by the kind of the quota that was exceeded."""

    def __init__(self) -> None:
        self.requests: dict[QuotaKind, int] = dict.fromkeys(QuotaKind, 0)
        self.waited_ms: dict[QuotaKind, int] = dict.fromkeys(QuotaKind, 0)

    def count(self, kind: QuotaKind, throttle_ms: int) -> None:
        """Counts a request, or with `CONNECTION_CREATION_RATE` a connection."""
        self.requests[kind] += 1
        self.waited_ms[kind] += throttle_ms


class NodeQuotas:
    """What the clients of a node have used of their quotas."""

    def __init__(
        self, table: QuotaTable, options: NodeOptions, clock: Clock, mutations: MutationUsage
    ) -> None:
        self.table = table
        self.throttles = Throttles()
        self._clock = clock
        config = options.config
        self.windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self._mutation_windows = Windows(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        )
        self._rates: dict[QuotaKind, Usage[ClientKey, WindowedRate]] = {
            kind: Usage(WindowedRate)
            for kind in (
                QuotaKind.PRODUCER_BYTE_RATE,
                QuotaKind.CONSUMER_BYTE_RATE,
                QuotaKind.REQUEST_PERCENTAGE,
            )
        }
        # Of all nodes together, as a cluster of Kafka's has one controller.
        self._mutations = mutations

    def now_ms(self) -> int:
        return monotonic_ms(self._clock)

    def tracked(self, kind: QuotaKind) -> int:
        """The number of clients, or groups of clients with a quota in common, that are remembered."""
        rates = self._rates.get(kind)
        return len(self._mutations) if rates is None else len(rates)

    def quota_of(
        self, kind: QuotaKind, caller: Caller, client_id: str | None
    ) -> AppliedQuota | None:
        """The quota of a caller."""
        return self.table.of_client(kind, caller.principal.name, client_id or "")

    def record(self, kind: QuotaKind, quota: AppliedQuota, value: float) -> int:
        """Counts what a client has used; returns for how long it has to wait."""
        now_ms = self.now_ms()
        rate = self._rates[kind].of(_tracked_key(quota), now_ms)
        rate.record(value, self.windows, now_ms)
        return rate.throttle_ms(quota.limit, self.windows, now_ms)

    def take_back(self, kind: QuotaKind, quota: AppliedQuota, value: float) -> None:
        """Counts less, because the client did not get it."""
        now_ms = self.now_ms()
        self._rates[kind].of(_tracked_key(quota), now_ms).record(-value, self.windows, now_ms)

    def mutations_of(self, quota: AppliedQuota) -> TokenBucket:
        return self._mutations.of(_tracked_key(quota), self.now_ms())

    @property
    def mutation_windows(self) -> Windows:
        return self._mutation_windows

    def forget_idle(self) -> None:
        """Forgets clients that did nothing for an hour."""
        now_ms = self.now_ms()
        for usage in self._rates.values():
            usage.forget_idle(now_ms)
        self._mutations.forget_idle(now_ms)


def _tracked_key(quota: AppliedQuota) -> ClientKey:
    user, client_id = quota.shared_by
    return short(user), short(client_id)


class RequestMeter:
    """What one request uses, and what its sender has to wait for that.

    Its time is what its steps on the event loop take: decoding, the handler, encoding. What it waits for costs the
    client nothing.
    """

    __slots__ = (
        "_began",
        "_caller",
        "_charged_seconds",
        "_client_id",
        "_is_produce",
        "_mutation_until_ms",
        "_mute",
        "_quotas",
        "_received_bytes",
        "_seconds",
        "_time_is_free",
        "_waits",
    )

    def __init__(
        self,
        quotas: NodeQuotas,
        caller: Caller,
        client_id: str | None,
        mute: Callable[[int], None],
        *,
        received_bytes: int,
        is_produce: bool,
        time_is_free: bool,
    ) -> None:
        self._quotas = quotas
        self._caller = caller
        self._client_id = client_id
        self._mute = mute
        self._received_bytes = received_bytes
        self._is_produce = is_produce
        self._time_is_free = time_is_free
        self._seconds = 0.0
        self._charged_seconds = 0.0
        self._began: float | None = perf_counter()
        self._mutation_until_ms = 0
        self._waits: dict[QuotaKind, int] = {}

    # The steps of the request on the event loop.

    def begin_step(self) -> None:
        self._began = perf_counter()

    def end_step(self) -> None:
        if self._began is not None:
            self._seconds += perf_counter() - self._began
            self._began = None

    def _uncharged_seconds(self) -> float:
        seconds = self._seconds
        if self._began is not None:
            seconds += perf_counter() - self._began
        uncharged = seconds - self._charged_seconds
        self._charged_seconds = seconds
        return uncharged

    # Quotas.

    def _quota(self, kind: QuotaKind) -> AppliedQuota | None:
        return self._quotas.quota_of(kind, self._caller, self._client_id)

    def _charge(self, kind: QuotaKind, value: float, most_ms: int = INT_MAX) -> int:
        quota = self._quota(kind)
        if quota is None:
            return 0
        wait_ms = min(self._quotas.record(kind, quota, value), most_ms)
        self._waits[kind] = wait_ms
        return wait_ms

    def _charge_time(self) -> int:
        if self._time_is_free or QuotaKind.REQUEST_PERCENTAGE in self._waits:
            return 0
        percent = self._uncharged_seconds() * WHOLE_LOOP_PERCENT
        return self._charge(QuotaKind.REQUEST_PERCENTAGE, percent, self._quotas.windows.size_ms)

    def charge_rest(self) -> None:
        """Counts the time since the request was charged; the next request waits for it, if any."""
        if not self._time_is_free:
            quota = self._quota(QuotaKind.REQUEST_PERCENTAGE)
            if quota is not None:
                percent = self._uncharged_seconds() * WHOLE_LOOP_PERCENT
                self._quotas.record(QuotaKind.REQUEST_PERCENTAGE, quota, percent)

    @property
    def max_fetch_bytes(self) -> int:
        """What a fetch may return: more would always exceed the quota, and the consumer never got anything."""
        quota = self._quota(QuotaKind.CONSUMER_BYTE_RATE)
        if quota is None:
            return INT_MAX
        return int(min(quota.limit * self._quotas.windows.whole_seconds, INT_MAX))

    def charge_fetch(self, response_bytes: int) -> bool:
        """Counts a response with records; False if the client must wait, and gets none now."""
        request_ms = self._charge_time()
        kind = QuotaKind.CONSUMER_BYTE_RATE
        fetch_ms = self._charge(kind, response_bytes)
        if not request_ms and not fetch_ms:
            return True
        quota = self._quota(kind)
        if quota is not None:
            self._quotas.take_back(kind, quota, response_bytes)
        return False

    def strict_permit(self) -> Permit:
        """Refuses changes of partitions while the quota is exceeded."""
        return self._permit(self._refuse_if_overdrawn)

    def strict_permit_without_wait(self) -> Permit:
        """As `strict_permit`, for what the client did not ask for: it does not have to wait."""
        return self._permit(_refuse_overdrawn)

    def lenient_permit(self) -> Permit:
        """Allows all changes of partitions, and makes the client wait if they exceed the quota."""
        return self._permit(self._allow_and_wait)

    def _permit(self, decide: Callable[[NodeQuotas, AppliedQuota, int], Refused | None]) -> Permit:
        quota = self._quota(QuotaKind.CONTROLLER_MUTATION_RATE)
        if quota is None:
            return unlimited
        return lambda partitions: decide(self._quotas, quota, partitions)

    def _refuse_if_overdrawn(
        self, quotas: NodeQuotas, quota: AppliedQuota, partitions: int
    ) -> Refused | None:
        refused = _refuse_overdrawn(quotas, quota, partitions)
        if refused is not None:
            self._wait_for_mutations(quota)
        return refused

    def _allow_and_wait(self, quotas: NodeQuotas, quota: AppliedQuota, partitions: int) -> None:
        now_ms = quotas.now_ms()
        windows = quotas.mutation_windows
        quotas.mutations_of(quota).take(partitions, quota.limit, windows, now_ms)
        self._wait_for_mutations(quota)

    def _wait_for_mutations(self, quota: AppliedQuota) -> None:
        quotas = self._quotas
        now_ms = quotas.now_ms()
        bucket = quotas.mutations_of(quota)
        wait_ms = bucket.throttle_ms(quota.limit, quotas.mutation_windows, now_ms)
        if wait_ms:
            self._mutation_until_ms = now_ms + wait_ms

    # The end.

    def settle(self, response: Any) -> Any:
        """Counts the request when its response is there; the response with what the client has to wait.

        The response leaves at once, but the connection is muted (KIP-219).
        """
        if self._is_produce and response is None:
            self._time_is_free = True  # as in Kafka: with acks=0 only the bytes count
        self._charge_time()
        if self._is_produce:
            self._charge(QuotaKind.PRODUCER_BYTE_RATE, self._received_bytes)
        if self._mutation_until_ms:
            left_ms = self._mutation_until_ms - self._quotas.now_ms()
            self._waits[QuotaKind.CONTROLLER_MUTATION_RATE] = max(0, left_ms)
        kind, throttle_ms = max(self._waits.items(), key=lambda wait: wait[1], default=(None, 0))
        if kind is None or not throttle_ms:
            return response
        self._quotas.throttles.count(kind, throttle_ms)
        self._mute(throttle_ms)
        if hasattr(response, "throttle_time_ms"):
            # Handlers may give the same response to several requests.
            response = copy.copy(response)
            response.throttle_time_ms = throttle_ms
        return response


def _refuse_overdrawn(quotas: NodeQuotas, quota: AppliedQuota, partitions: int) -> Refused | None:
    """As Kafka: what is asked for may overdraw the quota, but nothing is allowed while it is overdrawn."""
    now_ms = quotas.now_ms()
    bucket, windows = quotas.mutations_of(quota), quotas.mutation_windows
    if bucket.throttle_ms(quota.limit, windows, now_ms):
        return USED_UP
    bucket.take(partitions, quota.limit, windows, now_ms)
    return None
