"""Configs of topics, brokers, groups, subscriptions to metrics, and loggers."""

from __future__ import annotations

from typing import Any

from tests.security.kafka_answers.question import Question
from tests.security.kafka_answers.situations import CLUSTER, GROUP, TOPIC
from tests.security.kafka_answers.world import BOTH, FOUR

TOPIC_KIND, BROKER, LOGGER, CLIENT_METRICS, GROUP_KIND = 2, 4, 8, 16, 32
SET = 0
# One option of each resource.
OPTIONS = [
    *((TOPIC_KIND, name, "retention.ms", "1000") for name in FOUR),
    (BROKER, "1", "message.max.bytes", "1000000"),
    (BROKER, "", "message.max.bytes", "1000000"),
    *((GROUP_KIND, name, "consumer.session.timeout.ms", "50000") for name in BOTH),
    *((CLIENT_METRICS, name, "interval.ms", "1000") for name in BOTH),
]
# What is wrong with a resource, or with its option.
ODD = [
    (TOPIC_KIND, "mine", "nonsense", "1"),
    (TOPIC_KIND, "theirs", "retention.ms", "some"),
    (TOPIC_KIND, "", "retention.ms", "1000"),
    (TOPIC_KIND, "mine bad", "retention.ms", "1000"),
    (TOPIC_KIND, "__consumer_offsets", "retention.ms", "1000"),
    (BROKER, "7", "message.max.bytes", "1000000"),
    (BROKER, "x", "message.max.bytes", "1000000"),
    (GROUP_KIND, "", "consumer.session.timeout.ms", "50000"),
    (GROUP_KIND, "mine", "nonsense", "1"),
    (CLIENT_METRICS, "", "interval.ms", "1000"),
]


def _described(*kinds: int) -> list[dict[str, Any]]:
    return [
        {"resource_type": kind, "resource_name": name, "configuration_keys": [option]}
        for kind, name, option, _ in OPTIONS
        if kind in kinds
    ]


def _altered(*kinds: int, **fields: Any) -> dict[str, Any]:
    resources = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": option, "value": value, **fields}],
        }
        for kind, name, option, value in OPTIONS
        if kind in kinds
    ]
    return {"resources": resources, "validate_only": True}


WORDS = {
    TOPIC_KIND: ("topics", [TOPIC]),
    BROKER: ("brokers", [CLUSTER]),
    GROUP_KIND: ("groups", [GROUP]),
    CLIENT_METRICS: ("subscriptions", [CLUSTER]),
}
QUESTIONS = [
    *(
        Question("DescribeConfigs", [1, 4], words, {"resources": _described(kind)}, about)
        for kind, (words, about) in WORDS.items()
    ),
    Question(
        "DescribeConfigs",
        [4],
        "topics, brokers and groups at once",
        {"resources": _described(TOPIC_KIND, BROKER, GROUP_KIND)},
        [TOPIC, GROUP, CLUSTER],
    ),
    Question(
        "DescribeConfigs",
        [4],
        "the root logger of a broker",
        {
            "resources": [
                {"resource_type": LOGGER, "resource_name": "2", "configuration_keys": ["root"]}
            ]
        },
        [CLUSTER],
    ),
    *(
        Question("AlterConfigs", [0, 2], f"{words}, only validated", _altered(kind), about)
        for kind, (words, about) in WORDS.items()
    ),
    *(
        Question(
            "IncrementalAlterConfigs",
            [0, 1],
            f"{words}, only validated",
            _altered(kind, config_operation=SET),
            about,
        )
        for kind, (words, about) in WORDS.items()
    ),
    Question(
        "IncrementalAlterConfigs",
        [1],
        "a logger",
        {
            "resources": [
                {
                    "resource_type": LOGGER,
                    "resource_name": "1",
                    "configs": [{"name": "missing", "value": "INFO", "config_operation": SET}],
                }
            ],
            "validate_only": True,
        },
        [CLUSTER],
    ),
    Question("ListConfigResources", [0], "subscriptions", {}, [CLUSTER]),
    Question(
        "ListConfigResources",
        [1],
        "subscriptions and groups",
        {"resource_types": [CLIENT_METRICS, GROUP_KIND]},
        [CLUSTER],
    ),
    *(
        Question(
            api,
            [versions],
            "odd resources, only validated",
            {
                "resources": [
                    {
                        "resource_type": kind,
                        "resource_name": name,
                        "configs": [{"name": option, "value": value, **operation}],
                    }
                    for kind, name, option, value in ODD
                ],
                "validate_only": True,
            },
            [TOPIC, GROUP, CLUSTER],
        )
        for api, versions, operation in (
            ("AlterConfigs", 2, {}),
            ("IncrementalAlterConfigs", 1, {"config_operation": SET}),
        )
    ),
    Question(
        "DescribeConfigs",
        [4],
        "odd resources",
        {
            "resources": [
                {"resource_type": kind, "resource_name": name, "configuration_keys": [option]}
                for kind, name, option, _ in ODD
            ]
        },
        [TOPIC, GROUP, CLUSTER],
    ),
]
