"""The audit log: who logged in, from where, and what was allowed or denied.

It has a logger of its own, `ottla.broker.audit`. As in Kafka, what was denied is logged at INFO, what was allowed at
DEBUG. A client that is denied again and again causes one line, and then one for each interval, with a count.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.access import Operation, Resource
from ottla.broker.security.caller import Caller
from ottla.events import EventLog

LOGGER_NAME: Final = "ottla.broker.audit"
logger = EventLog(LOGGER_NAME)

INTERVAL_SECONDS: Final = 60.0
# Different denials of an interval that get lines of their own; the others are only counted.
MAX_DENIALS: Final = 500
# Names come from clients: the log has the beginning of a longer one.
MAX_NAME_CHARS: Final = 200


class _Denial(NamedTuple):
    """What is the same in the denials that are counted together."""

    event: str
    text: str
    fields: tuple[tuple[str, str], ...]


class AuditLog:
    """The audit log of one node; `tick` is called about once a second."""

    def __init__(self, node_id: int, now_seconds: float) -> None:
        self._node_id = node_id
        self._interval_began = now_seconds
        # How often each denial was repeated since it was logged last.
        self._repetitions: dict[_Denial, int] = {}
        self._uncounted = 0
        # Whether `allowed` writes anything; a change of the log level is noticed by the next tick.
        self.shows_allowed = logger.shows_debug

    def allowed(self, caller: Caller, operation: Operation, resource: Resource) -> None:
        """A caller was allowed to do what it asked for; to be called if `shows_allowed`."""
        fields = _access_fields(caller, operation, resource)
        logger.debug("access_allowed", _ALLOWED, node=self._node_id, **dict(fields))

    def denied(self, caller: Caller, operation: Operation, resource: Resource) -> None:
        """A caller was not allowed to do what it asked for."""
        self._log_denial("access_denied", _DENIED, _access_fields(caller, operation, resource))

    def logged_in(self, caller: Caller, mechanism: str) -> None:
        """A client has authenticated itself: the caller has its principal now."""
        if logger.shows_debug:
            fields = (("principal", shown(str(caller.principal))), ("mechanism", shown(mechanism)))
            logger.debug(
                "login_succeeded",
                _LOGGED_IN,
                node=self._node_id,
                **dict((*fields, *_origin_fields(caller))),
            )

    def login_failed(self, caller: Caller, mechanism: str, user: str | None, reason: str) -> None:
        """A client could not authenticate itself; the reason is for the operator and has no secret."""
        fields = (
            ("user", "(not given)" if user is None else shown(user)),
            ("mechanism", shown(mechanism)),
            ("reason", shown(reason)),
        )
        self._log_denial("login_failed", _LOGIN_FAILED, (*fields, *_origin_fields(caller)))

    def _log_denial(self, event: str, text: str, fields: tuple[tuple[str, str], ...]) -> None:
        denial = _Denial(event, text, fields)
        repetitions = self._repetitions.get(denial)
        if repetitions is not None:
            self._repetitions[denial] = repetitions + 1
        elif len(self._repetitions) < MAX_DENIALS:
            self._repetitions[denial] = 0
            logger.info(event, text, node=self._node_id, **dict(fields))
        else:
            self._uncounted += 1

    def tick(self, now_seconds: float) -> None:
        """Logs the counts of an interval that is over."""
        self.shows_allowed = logger.shows_debug
        seconds = now_seconds - self._interval_began
        if seconds >= INTERVAL_SECONDS:
            self._interval_began = now_seconds
            self._log_counts(seconds)

    def close(self, now_seconds: float) -> None:
        """Logs the counts that are left."""
        self._log_counts(now_seconds - self._interval_began)

    def _log_counts(self, seconds: float) -> None:
        counted, self._repetitions = self._repetitions, {}
        for denial, repetitions in counted.items():
            if repetitions:
                # It goes on: the next ones are counted too.
                self._repetitions[denial] = 0
                logger.info(
                    denial.event,
                    f"{denial.text} (%(repetitions)d more times in %(seconds)d s)",
                    node=self._node_id,
                    repetitions=repetitions,
                    seconds=round(seconds),
                    **dict(denial.fields),
                )
        if self._uncounted:
            logger.info(
                "denials_left_out",
                "%(count)d more denials in %(seconds)d s are not listed: "
                "there were more than %(limit)d different ones",
                node=self._node_id,
                count=self._uncounted,
                seconds=round(seconds),
                limit=MAX_DENIALS,
            )
            self._uncounted = 0


_FROM = "from %(host)s (listener %(listener)s)"
_ACCESS = f"%(operation)s on %(resource_type)s '%(resource)s' for %(principal)s {_FROM}, %(api)s"
_ALLOWED = f"allowed {_ACCESS}"
_DENIED = f"denied {_ACCESS}"
_LOGGED_IN = f"%(principal)s logged in by %(mechanism)s {_FROM}"
_LOGIN_FAILED = f"login of %(user)s by %(mechanism)s failed {_FROM}: %(reason)s"


def _access_fields(
    caller: Caller, operation: Operation, resource: Resource
) -> tuple[tuple[str, str], ...]:
    return (
        ("principal", shown(str(caller.principal))),
        ("operation", operation.name),
        ("resource_type", resource.type.name),
        ("resource", shown(resource.name)),
        ("api", caller.api_name),
        *_origin_fields(caller),
    )


def _origin_fields(caller: Caller) -> tuple[tuple[str, str], ...]:
    return (("host", caller.peer.host), ("listener", caller.listener))


def shown(name: str) -> str:
    """A name as a log may have it: no control characters, nothing that reverses text, and not too long."""
    beginning = name[:MAX_NAME_CHARS]
    if not beginning.isprintable():
        beginning = "".join(
            char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
            for char in beginning
        )
    return beginning if len(name) <= MAX_NAME_CHARS else f"{beginning}…"
