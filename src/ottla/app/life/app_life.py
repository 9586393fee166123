"""What belongs to the life of one app: its metrics, traces and monitor, attached before it starts."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ottla.app.life.app_metrics import AppMetrics
from ottla.app.life.combined_instruments import combine
from ottla.app.life.listener_report import ListenerReport
from ottla.app.life.listener_reports import ListenerReports
from ottla.app.life.monitor import AppMonitor, HealthRules
from ottla.errors import IllegalStateError

if TYPE_CHECKING:
    from ottla.app.application import App


class AppLife:
    """Observes an app; `App.life()` makes it before the app starts. The monitor follows the app's start and stop."""

    def __init__(self, app: App) -> None:
        self.metrics = AppMetrics()
        self._app = app
        self._reports = ListenerReports(HealthRules().stall_seconds)
        self.monitor = AppMonitor(
            app.name,
            self.metrics,
            self.reports,
            functions=lambda: {name: each.function for name, each in app.listeners.items()},
        )
        app.instruments = combine(app.instruments, self.metrics)
        app.on_startup(self.monitor.start)
        app.on_shutdown(self._stopped)

    def use(self, rules: HealthRules) -> None:
        """Use these rules instead of the defaults."""
        self._reports = ListenerReports(rules.stall_seconds)
        self.monitor.rules = rules

    def reports(self) -> Sequence[ListenerReport]:
        """The listeners at this moment; called on the app's loop."""
        specs = [listener.spec for listener in self._app.listeners.values()]
        for spec in specs:
            self.metrics.listener(spec)  # an idle listener has its series too
        try:
            runs = self._app.runtime.listeners
        except IllegalStateError:
            return self._reports.starting(specs)
        return self._reports.of([*runs.values()])

    def _stopped(self) -> None:
        self.monitor.draining("the app has stopped")
        self.monitor.stop()

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
