"""What `ottla.app` exports, for type checkers; at run time names are imported on first use."""

from ottla.app.application import App
from ottla.app.declarations.annotations import (
    Arrow,
    Depends,
    Header,
    Headers,
    Key,
    Offset,
    Partition,
    Timestamp,
    To,
    Topic,
    Value,
)
from ottla.app.declarations.compiled_handler import Acknowledgement
from ottla.app.declarations.listener import Listener
from ottla.app.declarations.retries import Retry, every
from ottla.app.declared_topics import DeclaredTopic
from ottla.app.errors import (
    BatchItemError,
    HandlerTimeoutError,
    ResultError,
    StartError,
    UnreadableRecordError,
)
from ottla.app.letters.letter import DeadLetter
from ottla.app.template import CollectedRecord
from ottla.client.model import ConsumerRecord as Record

__all__ = [
    "Acknowledgement",
    "App",
    "Arrow",
    "BatchItemError",
    "CollectedRecord",
    "DeadLetter",
    "DeclaredTopic",
    "Depends",
    "HandlerTimeoutError",
    "Header",
    "Headers",
    "Key",
    "Listener",
    "Offset",
    "Partition",
    "Record",
    "ResultError",
    "Retry",
    "StartError",
    "Timestamp",
    "To",
    "Topic",
    "UnreadableRecordError",
    "Value",
    "every",
]
