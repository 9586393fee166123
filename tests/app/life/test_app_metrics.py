"""What an app tells Prometheus."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.app.life.specs import record_of, spec_of

from ottla.app.life.app_metrics import MAX_ERROR_CLASSES, OTHER_ERRORS, AppMetrics
from ottla.exposition import Page


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def samples_of(page: Page) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples by name, as Prometheus' own parser reads them."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(page.render().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def page_of(metrics: AppMetrics) -> Page:
    page = Page()
    metrics.add_to(page)
    return page


def value_of(metrics: AppMetrics, name: str, **labels: str) -> float:
    rows = samples_of(page_of(metrics))[name]
    (value,) = [value for found, value in rows if labels.items() <= found.items()]
    return value


def test_records_are_counted_by_listener_and_outcome() -> None:
    metrics, spec = AppMetrics(), spec_of()
    metrics.finished(spec, "done", 3)
    metrics.finished(spec, "dead-letter", 1)
    metrics.finished(spec, "done", 2)
    assert value_of(metrics, "ottla_app_records_total", listener="bill", outcome="done") == 5
    assert value_of(metrics, "ottla_app_records_total", outcome="dead-letter", group="billing") == 1


def test_a_run_is_in_flight_until_it_ends_and_then_in_the_histogram() -> None:
    clock = Clock()
    metrics, spec = AppMetrics(clock), spec_of()
    with metrics.handling(spec, [record_of(7)], 1):
        clock.now += 3
        assert value_of(metrics, "ottla_app_handlers_in_flight") == 1
        assert value_of(metrics, "ottla_app_handler_oldest_seconds") == 3
    assert value_of(metrics, "ottla_app_handlers_in_flight") == 0
    assert value_of(metrics, "ottla_app_handler_oldest_seconds") == 0
    assert value_of(metrics, "ottla_app_handler_duration_seconds_count") == 1
    assert value_of(metrics, "ottla_app_handler_duration_seconds_sum") == 3
    assert value_of(metrics, "ottla_app_handler_duration_seconds_bucket", le="1") == 0
    assert value_of(metrics, "ottla_app_handler_duration_seconds_bucket", le="5") == 1


def fail_with(metrics: AppMetrics, error: Exception, attempt: int = 1) -> None:
    with metrics.handling(spec_of(), [record_of()], attempt):
        raise error


def test_failures_are_counted_by_class_and_retries_by_attempt() -> None:
    metrics = AppMetrics()
    for attempt in (1, 2, 3):
        with pytest.raises(ValueError, match="bad"):
            fail_with(metrics, ValueError("bad"), attempt)
    assert value_of(metrics, "ottla_app_handler_failures_total", error="ValueError") == 3
    assert value_of(metrics, "ottla_app_handler_retries_total") == 2


def test_the_classes_of_errors_are_bounded() -> None:
    metrics = AppMetrics()
    for number in range(MAX_ERROR_CLASSES + 20):
        kind = type(f"Error{number}", (Exception,), {})
        with pytest.raises(kind):
            fail_with(metrics, kind())
    rows = samples_of(page_of(metrics))["ottla_app_handler_failures_total"]
    assert len(rows) == MAX_ERROR_CLASSES + 1
    assert value_of(metrics, "ottla_app_handler_failures_total", error=OTHER_ERRORS) == 20


def test_commits_and_the_age_of_the_last_progress_are_told() -> None:
    clock = Clock()
    metrics, spec = AppMetrics(clock), spec_of()
    metrics.committed(spec, 10, 0.02)
    clock.now += 5
    assert value_of(metrics, "ottla_app_seconds_since_progress") == 5
    metrics.finished(spec, "done", 1)
    clock.now += 2
    assert value_of(metrics, "ottla_app_seconds_since_progress") == 2
    assert value_of(metrics, "ottla_app_committed_records_total") == 10
    assert value_of(metrics, "ottla_app_commit_duration_seconds_sum") == pytest.approx(0.02)
