"""Three nodes in a process of their own: a line of JSON on stdin says what happens to them, a line answers it.

["move", topic, partition, node]    another node leads a partition
["kill", node]                      a node ends as kill -9 would end it
["start", node]
"""

from __future__ import annotations

import json
import logging
import sys

from ottla import Broker
from ottla.broker.crashpoints import CrashPoint
from ottla.errors import OttlaError
from ottla.testing.crash_injection import crash_at


def obey(broker: Broker, name: str, *arguments: str | int) -> None:
    match name, *arguments:
        case "move", str(topic), int(partition), int(node_id):
            broker.move_leader(topic, partition, node_id)
        case "kill", int(node_id):
            if len(broker.node_ids) > 1:
                broker.kill_node(node_id)
        case "start", int(node_id):
            broker.start_node(node_id)
        case _:
            raise OttlaError(f"{name} {arguments}")


def main(text: str) -> None:
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )
    settings = json.loads(text)
    if settings["crash"] is not None:
        name, count = settings["crash"]
        crash_at(CrashPoint[name], count)
    with Broker(
        settings["options"],
        nodes=3,
        listen=settings["listen"],
        advertise=settings["advertise"],
        data_dir=settings["data_dir"],
    ) as broker:
        print(f"listening on {broker.bootstrap_servers}", flush=True)
        for line in sys.stdin:
            try:
                obey(broker, *json.loads(line))
                answer = "done"
            except OttlaError as error:
                answer = f"refused: {error}".replace("\n", " ")
            print(answer, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
