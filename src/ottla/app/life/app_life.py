"""What belongs to the life of one app: its metrics, traces and monitor, attached before it starts."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ottla.app.life.app_metrics import AppMetrics
from ottla.app.life.combined_instruments import combine
from ottla.app.life.listener_report import ListenerReport
from ottla.app.life.listener_reports import ListenerReports
from ottla.app.life.monitor import AppMonitor, HealthRules
from ottla.exposition import Page

if TYPE_CHECKING:
    from ottla.app.application import App


class AppLife:
    """Observes an app; one for each app, made before the app starts."""

    def __init__(self, app: App, rules: HealthRules | None = None) -> None:
        rules = HealthRules() if rules is None else rules
        self.metrics = AppMetrics()
        self._app = app
        self._reports = ListenerReports(rules.stall_seconds)
        self.monitor = AppMonitor(
            app.name,
            self.metrics,
            self.reports,
            rules,
            functions=lambda: {name: each.function for name, each in app.listeners.items()},
        )
        app.instruments = combine(app.instruments, self.metrics)

    def reports(self) -> Sequence[ListenerReport]:
        """The listeners at this moment; called on the app's loop."""
        specs = [listener.spec for listener in self._app.listeners.values()]
        for spec in specs:
            self.metrics.listener(spec)  # an idle listener has its series too
        if not self._app.is_running:
            return self._reports.starting(specs)
        return self._reports.of([*self._app.runtime.listeners.values()])

    # As `AppProcess` needs it

    @property
    def name(self) -> str:
        """The name of the app."""
        return self._app.name

    def start(self) -> Coroutine[Any, Any, None]:
        """Start the app."""
        return self._app.start()

    def stop(self, timeout_seconds: float) -> Coroutine[Any, Any, None]:
        """Drain the app."""
        return self._app.stop(timeout_seconds)

    def failure(self) -> Coroutine[Any, Any, BaseException]:
        """Wait until a listener fails fatally."""
        return self._app.failure()


class EmbeddedLife:
    """The life of an app inside of another program, as `HealthSource`: the monitor follows the app's start and stop."""

    def __init__(self, app: App, rules: HealthRules | None = None) -> None:
        self._app = app
        self._life = AppLife(app, rules)
        app.on_startup(self._started)
        app.on_shutdown(self._stopped)

    def _started(self) -> None:
        self._life.monitor.start()

    def _stopped(self) -> None:
        self._life.monitor.stop()

    def health(self) -> tuple[bool, dict[str, Any]]:
        """As the monitor says."""
        return self._life.monitor.health()

    def readiness(self) -> tuple[bool, dict[str, Any]]:
        """As the monitor says."""
        return self._life.monitor.readiness()

    def page(self) -> Page:
        """As the monitor says."""
        return self._life.monitor.page()
