"""The AsyncAPI document of an app."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import pytest
from jsonschema import Draft202012Validator, ValidationError
from pydantic import BaseModel
from tests.app.life.asyncapi_checks import check

from ottla.app.life.asyncapi import (
    DocumentedApp,
    DocumentedListener,
    DocumentedTopic,
    SentType,
    document_of,
)
from ottla.app.life.value_schemas import class_schema, value_schema
from ottla.client.model import ConsumerRecord


@dataclass
class Line:
    article: str
    count: int = 1


@dataclass
class Order:
    number: int
    customer: str
    lines: list[Line] = field(default_factory=list)


class Address(BaseModel):
    street: str


class Invoice(BaseModel):
    order: int
    address: Address
    total: float


class Reading(TypedDict):
    celsius: float


def listener(**more: Any) -> DocumentedListener:
    given: dict[str, Any] = {
        "name": "bill",
        "topics": ("orders",),
        "group": "billing",
        "value_type": Order,
        **more,
    }
    return DocumentedListener(**given)


def document(*listeners: DocumentedListener, **more: Any) -> dict[str, Any]:
    app = DocumentedApp(
        title="billing",
        version="1.2.0",
        bootstrap_servers=["kafka.example:9092"],
        listeners=listeners,
        **more,
    )
    found = document_of(app)
    check(found)
    return found


def test_a_listener_is_an_operation_on_its_topic_with_message_and_group() -> None:
    found = document(listener(key_type=str, description="Bills orders.\n\nOnce each."))
    assert found["channels"]["orders"]["address"] == "orders"
    operation = found["operations"]["bill"]
    assert operation["action"] == "receive"
    assert operation["summary"] == "Bills orders."
    assert operation["messages"] == [{"$ref": "#/channels/orders/messages/Order"}]
    assert operation["bindings"]["kafka"]["groupId"] == {"type": "string", "enum": ["billing"]}
    message = found["components"]["messages"]["Order"]
    assert message["payload"] == {"$ref": "#/components/schemas/Order"}
    assert message["bindings"]["kafka"]["key"] == {"type": "string"}
    assert found["servers"] == {"kafka1": {"host": "kafka.example:9092", "protocol": "kafka"}}


def test_results_are_operations_that_send() -> None:
    found = document(listener(sends=[SentType("invoices", Invoice), SentType("audit", str)]))
    assert found["operations"]["bill.sends.1"]["action"] == "send"
    assert found["channels"]["invoices"]["messages"] == {
        "Invoice": {"$ref": "#/components/messages/Invoice"}
    }
    assert found["components"]["messages"]["Text"]["contentType"] == "text/plain"


def validator(found: dict[str, Any], name: str) -> Draft202012Validator:
    """Checks values against a schema of the document, whose references lead through the document."""
    return Draft202012Validator({**found, "$ref": f"#/components/schemas/{name}"})


def test_the_schemas_take_what_the_classes_take() -> None:
    found = document(listener(sends=[SentType("invoices", Invoice)]))
    order = validator(found, "Order")
    order.validate({"number": 1, "customer": "t4", "lines": [{"article": "tea", "count": 2}]})
    for wrong in (
        {"customer": "t4"},
        {"number": "one", "customer": "t4"},
        {"number": 1, "customer": "t4", "lines": [{"count": 2}]},
    ):
        with pytest.raises(ValidationError):
            order.validate(wrong)
    invoice = validator(found, "Invoice")
    invoice.validate({"order": 1, "address": {"street": "Elm"}, "total": 2.5})
    with pytest.raises(ValidationError):
        invoice.validate({"order": 1, "address": {}, "total": 2.5})


def make_order_class(kind: type) -> type:
    @dataclass
    class Order:  # the same name as above
        number: kind  # type: ignore[valid-type]

    Order.__annotations__ = {"number": kind}
    return Order


def test_classes_of_one_name_and_different_schemas_are_kept_apart() -> None:
    found = document(
        listener(),
        listener(name="count", value_type=make_order_class(str)),
        listener(name="again", value_type=Order),
    )
    assert {"Order", "Order_2", "Line"} <= set(found["components"]["schemas"])
    assert "Order_3" not in found["components"]["schemas"]
    assert found["operations"]["again"]["messages"] == found["operations"]["bill"]["messages"]
    assert found["operations"]["count"]["messages"] == [
        {"$ref": "#/channels/orders/messages/Order_2"}
    ]


def test_a_listener_of_several_topics_and_one_of_a_pattern() -> None:
    found = document(
        listener(topics=("orders", "returns")),
        listener(name="watch", topics=re.compile("orders-.*"), value_type=bytes, is_batch=True),
    )
    assert set(found["operations"]) == {"bill.orders", "bill.returns", "watch"}
    channel = found["channels"]["watch.topics"]
    assert channel["address"] is None
    assert channel["title"] == "topics that match orders-.*"
    assert found["operations"]["watch"]["tags"] == [{"name": "batch"}]


def test_topics_that_the_app_declares_have_bindings() -> None:
    topic = DocumentedTopic(
        name="orders",
        partitions=6,
        replicas=3,
        configs={"cleanup.policy": "compact,delete", "retention.ms": "1000"},
    )
    found = document(listener(), topics=[topic])
    assert found["channels"]["orders"]["bindings"]["kafka"] == {
        "topic": "orders",
        "partitions": 6,
        "replicas": 3,
        "topicConfiguration": {"cleanup.policy": ["compact", "delete"], "retention.ms": 1000},
        "bindingVersion": "0.5.0",
    }
    assert "Order" in found["channels"]["orders"]["messages"]


def test_replies_and_headers_are_documented() -> None:
    found = document(listener(replies_with=Invoice, header_types={"tenant": str, "try": int}))
    reply = found["operations"]["bill"]["reply"]
    assert reply["address"] == {"location": "$message.header#/kafka_replyTopic"}
    assert found["components"]["messages"]["Order"]["headers"]["properties"] == {
        "tenant": {"type": "string"},
        "try": {"type": "integer"},
    }


@pytest.mark.parametrize(
    ("mechanism", "kind"),
    [
        ("PLAIN", "plain"),
        ("SCRAM-SHA-256", "scramSha256"),
        ("SCRAM-SHA-512", "scramSha512"),
        ("OAUTHBEARER", "http"),
    ],
)
def test_security_of_the_servers(mechanism: str, kind: str) -> None:
    found = document(listener(), security_protocol="SASL_SSL", sasl_mechanism=mechanism)
    assert found["servers"]["kafka1"]["protocol"] == "kafka-secure"
    assert found["components"]["securitySchemes"]["sasl"]["type"] == kind


@pytest.mark.parametrize(
    ("wanted", "name", "content_type", "schema"),
    [
        (Any, "Record", "application/octet-stream", None),
        (bytes, "Bytes", "application/octet-stream", {"type": "string", "format": "binary"}),
        (
            ConsumerRecord,
            "Bytes",
            "application/octet-stream",
            {"type": "string", "format": "binary"},
        ),
        (ConsumerRecord[str, int], "Int", "application/json", {"type": "integer"}),
        (dict, "Object", "application/json", {"type": "object"}),
        (
            dict[str, int],
            "Object",
            "application/json",
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        (list[int], "IntList", "application/json", {"type": "array", "items": {"type": "integer"}}),
        (
            int | None,
            "IntOrNone",
            "application/json",
            {"oneOf": [{"type": "integer"}, {"type": "null"}]},
        ),
        (Literal["a", "b"], "Literal", "application/json", {"enum": ["a", "b"]}),
        (
            Reading,
            "Reading",
            "application/json",
            {
                "type": "object",
                "properties": {"celsius": {"type": "number"}},
                "required": ["celsius"],
            },
        ),
    ],
)
def test_values_that_are_no_classes(
    wanted: Any, name: str, content_type: str, schema: dict[str, Any] | None
) -> None:
    found = value_schema(wanted, class_schema)
    assert (found.name, found.content_type, found.schema) == (name, content_type, schema)


def test_a_list_or_an_optional_of_classes_refers_to_components() -> None:
    found = document(listener(value_type=Order | None, sends=[SentType("all", list[Order])]))
    messages = found["components"]["messages"]
    order = {"$ref": "#/components/schemas/Order"}
    assert messages["OrderOrNone"]["payload"] == {"oneOf": [order, {"type": "null"}]}
    assert messages["OrderList"]["payload"] == {"type": "array", "items": order}


def test_the_checks_see_what_is_wrong() -> None:
    damages: list[Callable[[dict[str, Any]], object]] = [
        lambda found: found.pop("info"),
        lambda found: found["operations"]["bill"].pop("channel"),
        lambda found: found["operations"]["bill"].update(action="publish"),
        lambda found: found["channels"].pop("orders"),
        lambda found: found["components"]["schemas"].pop("Line"),
        lambda found: found["components"]["schemas"].update({"a b": {}}),
        lambda found: found["servers"]["kafka1"].update(url="kafka://x"),
    ]
    for damage in damages:
        found = document(listener())
        damage(found)
        with pytest.raises(AssertionError):
            check(found)
