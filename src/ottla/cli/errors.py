"""Errors of commands, printed in one line with advice."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ottla.cli.exit_codes import DONE, FAILED
from ottla.cli.needed_rights import needed_right
from ottla.cli.terminal.output import printable
from ottla.errors import (
    ErrorCode,
    KafkaError,
    OttlaError,
    PartialFailureError,
    TimedOutError,
    TlsError,
)


class CommandError(OttlaError):
    """A command failed; `advice` says what to try."""

    def __init__(self, message: str, advice: str = "") -> None:
        self.message = message
        self.advice = advice
        super().__init__(message, advice)

    def __str__(self) -> str:
        return f"{self.message}: {self.advice}" if self.advice else self.message


class UsageError(CommandError):
    """The arguments of a command contradict each other."""


_PERMISSION: Final = (
    "ask for the permission, or give the credentials of a user who has it with --command-config"
)
_MISSING: Final = (
    "it needs {right}: `ottla acls create` grants that, or give the credentials of a user who has it "
    "with --command-config"
)
_OPTIONS: Final = "options of the client are in the file of --command-config"
_ADVICE: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`ottla topics list` shows which topics there are",
    ErrorCode.MESSAGE_TOO_LARGE: "-X max.request.size=BYTES raises the limit here, and the config "
    "max.message.bytes of the topic the broker's",
    ErrorCode.TOPIC_ALREADY_EXISTS: "`ottla topics describe` shows it; --if-not-exists makes this no error",
    ErrorCode.GROUP_ID_NOT_FOUND: "`ottla groups list` shows which groups there are",
    ErrorCode.NON_EMPTY_GROUP: "stop its consumers first; `ottla groups describe --members` shows them",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`ottla transactions list` shows which there are",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _PERMISSION,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _PERMISSION,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _PERMISSION,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _PERMISSION,
    ErrorCode.SECURITY_DISABLED: "ACLs need a broker with the option authorizer.class.name",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "check user name and password in the file of --command-config",
    ErrorCode.ILLEGAL_SASL_STATE: _OPTIONS,
    ErrorCode.NETWORK_EXCEPTION: "is the broker running? -b HOST:PORT chooses its address",
    ErrorCode.UNSUPPORTED_VERSION: "the cluster is too old for this; `ottla cluster api-versions` shows what it serves",
}


_SASL: Final = "SaslHandshake"
# Parts of the context that are not printed, because the text or the command has them.
_HIDDEN_CONTEXT: Final = frozenset({"api", "accepted", "filter"})


def line_of(error: BaseException) -> str:
    """The text of an error in one line, safe to print."""
    return printable(_line_of(error))


def _line_of(error: BaseException) -> str:
    if isinstance(error, KafkaError):
        return _line_of_kafka(error)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror or error}"
    return " ".join(str(error).split()) or type(error).__name__


def _line_of_kafka(error: KafkaError) -> str:
    text = error.message.rstrip(".")
    about = ", ".join(
        f"{key.replace('_', ' ')} {value}"
        for key, value in error.context.items()
        if key not in _HIDDEN_CONTEXT and not _has_word(text, str(value))
    )
    line = f"{text} ({about})" if about else text
    advice = _ADVICE.get(error.code)
    right = needed_right(error)
    if right is not None:
        advice = _MISSING.format(right=right)
    elif isinstance(error, TlsError):
        advice = _OPTIONS
    elif error.code is ErrorCode.UNSUPPORTED_VERSION and error.context.get("api") == _SASL:
        advice = "it expects no SASL there: see security.protocol, or try another port with -b"
    elif error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and "partition" in error.context:
        advice = "`ottla topics describe` shows which partitions there are"
    elif advice is None and isinstance(error, TimedOutError):
        advice = "--timeout SECONDS waits longer, -v shows what happens"
    return " ".join(f"{line}: {advice}".split() if advice else line.split())


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", text) is not None


def print_errors(errors: Iterable[BaseException]) -> int:
    """Print one line for each error; returns the exit code."""
    code = DONE
    for error in errors:
        print(f"ottla: {line_of(error)}", file=sys.stderr)
        code = FAILED
    return code


def attempt(
    keys: Iterable[Any], call: Callable[[], Mapping[Any, Any] | None]
) -> tuple[dict[Any, Any], dict[Any, KafkaError]]:
    """Call the cluster for several keys: the results, and the errors of the others."""
    wanted = list(keys)
    if not wanted:
        return {}, {}
    try:
        results = call()
    except PartialFailureError as failure:
        return failure.results, failure.errors
    except KafkaError as error:
        if len(wanted) > 1:
            raise
        return {}, {wanted[0]: error}
    return dict(results or dict.fromkeys(wanted)), {}
