"""Spans and trace contexts, seen by OpenTelemetry's own SDK."""

from __future__ import annotations

import builtins
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.app.life.specs import record_of, spec_of

from ottla.app.instruments import Instruments
from ottla.app.life.app_metrics import AppMetrics
from ottla.app.life.combined_instruments import CombinedInstruments
from ottla.app.life.tracing import MAX_LINKS, tracing_if_installed


class Traced:
    """Instruments with the spans that they made."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        found = tracing_if_installed(self.provider)
        assert found is not None
        self.instruments: Instruments = found

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._exporter.get_finished_spans()}


@pytest.fixture
def traced() -> Traced:
    return Traced()


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_one_trace_goes_from_the_sender_through_the_handler_to_its_result(traced: Traced) -> None:
    instruments = traced.instruments
    with traced.provider.get_tracer("web").start_as_current_span("POST /orders"):
        headers = instruments.outgoing_headers("orders", (("shop", b"7"),))
    assert headers[0] == ("shop", b"7")
    with instruments.handling(spec_of(), [record_of(5, key=b"t4", headers=headers)], 1):
        result = instruments.outgoing_headers("invoices", ())
    with instruments.handling(spec_of(name="mail"), [record_of(9, headers=result)], 1):
        pass
    spans = traced.spans()
    assert len({span.context.trace_id for span in spans.values() if span.context}) == 1
    created, processed = spans["create orders"], spans["process orders"]
    assert created.kind is SpanKind.PRODUCER
    assert processed.kind is SpanKind.CONSUMER
    assert created.parent == spans["POST /orders"].context
    assert spans["create invoices"].parent is not None
    assert attributes_of(created)["messaging.destination.name"] == "orders"


def test_the_attributes_follow_the_semantic_conventions(traced: Traced) -> None:
    with traced.instruments.handling(spec_of(), [record_of(5, key=b"t4")], 3):
        pass
    assert attributes_of(traced.spans()["process orders"]) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "orders",
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": "billing",
        "messaging.kafka.offset": 5,
        "messaging.kafka.message.key": "t4",
        "ottla.listener": "bill",
        "ottla.attempt": 3,
    }


def test_a_batch_links_to_the_traces_of_its_records(traced: Traced) -> None:
    tracer = traced.provider.get_tracer("web")
    records = []
    for offset in range(3):
        with tracer.start_as_current_span("request"):
            headers = traced.instruments.outgoing_headers("orders", ())
        records.append(record_of(offset, headers=headers))
    with traced.instruments.handling(spec_of(is_batch=True), [*records, record_of(3)], 1):
        pass
    batch = traced.spans()["process orders"]
    assert batch.parent is None
    assert len({link.context.trace_id for link in batch.links}) == 3
    assert [dict(link.attributes or {})["messaging.kafka.offset"] for link in batch.links] == [
        0,
        1,
        2,
    ]
    assert attributes_of(batch)["messaging.batch.message_count"] == 4


def test_the_links_of_a_batch_are_bounded(traced: Traced) -> None:
    with traced.provider.get_tracer("web").start_as_current_span("request"):
        headers = traced.instruments.outgoing_headers("orders", ())
    records = [record_of(offset, headers=headers) for offset in range(MAX_LINKS * 2)]
    with traced.instruments.handling(spec_of(is_batch=True), records, 1):
        pass
    assert len(traced.spans()["process orders"].links) == MAX_LINKS


def test_an_error_of_the_handler_is_in_its_span(traced: Traced) -> None:
    with (
        pytest.raises(ValueError, match="no such order"),
        traced.instruments.handling(spec_of(), [record_of()], 1),
    ):
        raise ValueError("no such order")
    span = traced.spans()["process orders"]
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["error.type"] == "ValueError"
    assert [event.name for event in span.events] == ["exception"]
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_record_that_is_sent_on_later_stays_in_its_trace(traced: Traced) -> None:
    with traced.provider.get_tracer("web").start_as_current_span("request"):
        first = traced.instruments.outgoing_headers("orders", ())
    hop = traced.instruments.outgoing_headers("orders.billing.retry.1", first)
    assert [name for name, _ in hop] == ["traceparent"]
    spans = traced.spans()
    parent, created = spans["create orders.billing.retry.1"].parent, spans["create orders"].context
    assert parent is not None
    assert created is not None
    assert (parent.trace_id, parent.span_id) == (created.trace_id, created.span_id)


def test_broken_trace_headers_begin_a_new_trace(traced: Traced) -> None:
    for value in (b"", b"\xff\xfe", b"00-zz-zz-01", None):
        with traced.instruments.handling(
            spec_of(), [record_of(headers=(("traceparent", value),))], 1
        ):
            pass
        assert traced.spans()["process orders"].parent is None


def test_a_commit_is_a_span_of_its_own(traced: Traced) -> None:
    traced.instruments.committed(spec_of(), 12, 0.5)
    span = traced.spans()["commit billing"]
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time == 500_000_000
    assert attributes_of(span)["messaging.operation.type"] == "settle"


def test_metrics_and_traces_attach_together(traced: Traced) -> None:
    metrics = AppMetrics()
    both = CombinedInstruments(metrics, traced.instruments)
    with both.handling(spec_of(), [record_of()], 1):
        assert trace.get_current_span().get_span_context().is_valid
    with pytest.raises(KeyError), both.handling(spec_of(), [record_of()], 2):
        raise KeyError
    both.finished(spec_of(), "retry", 1)
    both.committed(spec_of(), 1, 0.1)
    (counts,) = metrics.listeners()
    assert counts.failures == {"KeyError": 1}
    assert counts.outcomes == {"retry": 1}
    assert counts.running == {}
    assert set(traced.spans()) == {"process orders", "commit billing"}


def test_without_opentelemetry_there_is_no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    assert tracing_if_installed() is None
