"""librdkafka's mock cluster in a process of its own, until standard input ends.

Run: python -m benchmarks.mock_cluster
"""

from __future__ import annotations

import sys

from confluent_kafka import Producer

METADATA_SECONDS = 10.0


def main() -> None:
    # The mock cluster lives in the client that asks for it and replaces its bootstrap servers.
    client = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = client.list_topics(timeout=METADATA_SECONDS).brokers.values()
    print(f"listening on {broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
