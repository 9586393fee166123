"""Spans of OpenTelemetry: processing, creating and committing records, with the trace context in their headers.

The names follow OpenTelemetry's semantic conventions for messaging. This module imports `opentelemetry`, which is no
dependency of ours: `tracing_if_installed` is how the rest of the app gets at it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Final

from ottla.app.declarations.listener_spec import ListenerSpec, RawRecord
from ottla.client.model import Headers
from ottla.version import VERSION

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from ottla.app.instruments import Instruments

# A link for each record of a large batch would make a span that no backend takes.
MAX_LINKS: Final = 128
_KEY_CHARACTERS: Final = 256


def tracing_if_installed(provider: TracerProvider | None = None) -> Instruments | None:
    """Tracing with the given provider or the global one; None without the package opentelemetry-api."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    return Tracing(trace.get_tracer("ottla.app", VERSION, tracer_provider=provider))


def tracing_if_configured() -> Instruments | None:
    """Tracing, if the program has set up OpenTelemetry; spans without a provider would be work for nothing."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return tracing_if_installed(provider)


class Tracing:
    """Instruments that make spans."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def handling(
        self, spec: ListenerSpec, records: Sequence[RawRecord], attempt: int
    ) -> AbstractContextManager[None]:
        """A span around one run of the handler.

        It continues the trace of a single record; the span of a batch begins a trace and links to those of its records.
        """
        first = records[0]
        attributes: dict[str, str | int] = {
            "messaging.system": "kafka",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": first.topic,
            "messaging.destination.partition.id": str(first.partition),
            "messaging.consumer.group.name": spec.group,
            "messaging.kafka.offset": first.offset,
            "ottla.listener": spec.name,
        }
        if attempt > 1:
            attributes["ottla.attempt"] = attempt
        if spec.handler.is_batch:
            attributes["messaging.batch.message_count"] = len(records)
        else:
            if first.key is not None:
                attributes["messaging.kafka.message.key"] = _text_of_key(first.key)
            if first.value is None:
                attributes["messaging.kafka.message.tombstone"] = True
        return _ProcessSpan(self._tracer, f"process {first.topic}", attributes, spec, records)

    def finished(self, spec: ListenerSpec, outcome: str, records: int) -> None:
        """Outcomes are no spans."""

    def committed(self, spec: ListenerSpec, records: int, seconds: float) -> None:
        """A span of the commit, which has just ended."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        end_ns = time.time_ns()
        # It belongs to many records, so that it is a trace of its own.
        span = self._tracer.start_span(
            f"commit {spec.group}",
            context=Context(),
            kind=SpanKind.CLIENT,
            attributes={
                "messaging.system": "kafka",
                "messaging.operation.name": "commit",
                "messaging.operation.type": "settle",
                "messaging.consumer.group.name": spec.group,
                "messaging.batch.message_count": records,
                "ottla.listener": spec.name,
            },
            start_time=end_ns - round(seconds * 1e9),
        )
        span.end(end_ns)

    def outgoing_headers(self, topic: str, headers: Headers) -> Headers:
        """The headers with the context of a new span, which stands for the creation of the record.

        Without a current span, as for a record that goes on to a retry topic later, the trace in its headers goes on.
        """
        from opentelemetry import propagate, trace
        from opentelemetry.trace import SpanKind

        context = None
        if not trace.get_current_span().get_span_context().is_valid:
            context = _context_of(headers)
        span = self._tracer.start_span(
            f"create {topic}",
            context=context,
            kind=SpanKind.PRODUCER,
            attributes={
                "messaging.system": "kafka",
                "messaging.operation.name": "create",
                "messaging.operation.type": "create",
                "messaging.destination.name": topic,
            },
        )
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span, context))
        span.end()
        if not carrier:
            return headers
        kept = tuple(header for header in headers if header[0].lower() not in carrier)
        return kept + tuple((name, value.encode()) for name, value in carrier.items())


class _ProcessSpan:
    """The current span while a handler runs."""

    __slots__ = ("_attributes", "_name", "_records", "_span", "_spec", "_token", "_tracer")

    def __init__(
        self,
        tracer: Tracer,
        name: str,
        attributes: Mapping[str, str | int],
        spec: ListenerSpec,
        records: Sequence[RawRecord],
    ) -> None:
        self._tracer = tracer
        self._name = name
        self._attributes = attributes
        self._spec = spec
        self._records = records
        self._span: Span | None = None
        self._token: Token[Context] | None = None

    def __enter__(self) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context, attach
        from opentelemetry.trace import Link, SpanKind

        links = []
        if self._spec.handler.is_batch:
            context = Context()
            for record in self._records[:MAX_LINKS]:
                created = trace.get_current_span(_context_of(record.headers)).get_span_context()
                if created.is_valid:
                    offset: dict[str, str | int] = {
                        "messaging.destination.partition.id": str(record.partition),
                        "messaging.kafka.offset": record.offset,
                    }
                    links.append(Link(created, offset))
        else:
            context = _context_of(self._records[0].headers)
        self._span = self._tracer.start_span(
            self._name,
            context=context,
            kind=SpanKind.CONSUMER,
            attributes=self._attributes,
            links=links,
        )
        self._token = attach(trace.set_span_in_context(self._span, context))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        from opentelemetry.context import detach
        from opentelemetry.trace import StatusCode

        assert self._span is not None
        assert self._token is not None
        detach(self._token)
        if error is not None:
            self._span.set_attribute("error.type", type(error).__qualname__)
            if isinstance(error, Exception):
                self._span.record_exception(error)
            self._span.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}")
        self._span.end()


def _context_of(headers: Headers) -> Context:
    """The trace context that the headers of a record carry; an empty one if they have none."""
    from opentelemetry import propagate
    from opentelemetry.context import Context

    carrier = {
        name.lower(): value.decode("utf-8", "replace")
        for name, value in headers
        if value is not None
    }
    return propagate.extract(carrier, Context())


def _text_of_key(key: bytes) -> str:
    try:
        return key.decode("utf-8")[:_KEY_CHARACTERS]
    except UnicodeDecodeError:
        return key[: _KEY_CHARACTERS // 2].hex()
