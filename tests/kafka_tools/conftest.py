"""The jars of Kafka's tools."""

from __future__ import annotations

import pytest
from tests import maven
from tests.kafka_tools.tool_runner import class_path


@pytest.fixture(scope="session")
def tool_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of all tools: one of them is in the same jar as Kafka's broker."""
    shared = tmp_path_factory.getbasetemp().parent
    return class_path(maven.kafka_tools(shared), maven.kafka_server(shared))
