"""Several instruments as one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from ottla.app.declarations.listener_spec import ListenerSpec, RawRecord
from ottla.app.instruments import Instruments, NoInstruments
from ottla.client.model import Headers


def combine(*given: Instruments | None) -> Instruments:
    """These instruments as one; None and those that do nothing are left out."""
    working = [each for each in given if each is not None and not isinstance(each, NoInstruments)]
    if len(working) > 1:
        return CombinedInstruments(*working)
    return working[0] if working else NoInstruments()


class CombinedInstruments:
    """Calls each of its instruments, in order."""

    def __init__(self, *instruments: Instruments) -> None:
        self._all = instruments

    def handling(
        self, spec: ListenerSpec, records: Sequence[RawRecord], attempt: int
    ) -> AbstractContextManager[None]:
        """All of their contexts, the last one innermost."""
        return _Contexts([each.handling(spec, records, attempt) for each in self._all])

    def finished(self, spec: ListenerSpec, outcome: str, records: int) -> None:
        """Tell all."""
        for each in self._all:
            each.finished(spec, outcome, records)

    def committed(self, spec: ListenerSpec, records: int, seconds: float) -> None:
        """Tell all."""
        for each in self._all:
            each.committed(spec, records, seconds)

    def outgoing_headers(self, topic: str, headers: Headers) -> Headers:
        """The headers that all have added to."""
        for each in self._all:
            headers = each.outgoing_headers(topic, headers)
        return headers


class _Contexts:
    """Context managers, entered together."""

    __slots__ = ("_managers", "_stack")

    def __init__(self, managers: list[AbstractContextManager[None]]) -> None:
        self._managers = managers
        self._stack = ExitStack()

    def __enter__(self) -> None:
        for each in self._managers:
            self._stack.enter_context(each)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)
