"""How long does a producer wait for an acknowledgement?

Run: python -m benchmarks.bench_latency
"""

from __future__ import annotations

from functools import partial
from itertools import count

from benchmarks.comparison import Row
from benchmarks.frames import append_first, leaders, produce_frame
from benchmarks.load import Burst, at_rate, one_by_one
from benchmarks.measure import Measurement, percentiles_ms
from benchmarks.peers import Peer
from benchmarks.run import run_alone

VALUE_BYTES = 1000
MODERATE_PER_SECOND = 1_000

_topic_numbers = count()


def request(peer: Peer) -> tuple[str, str, Burst]:
    """A new topic, its leader, and a request that appends one record to it."""
    topic = f"latency-{next(_topic_numbers)}"
    leader = leaders(peer.bootstrap_server, topic)[0]
    frame = produce_frame(topic, 1, VALUE_BYTES)
    return topic, leader, Burst(frame, 1, append_first(leader, frame))


def unpipelined(peer: Peer, seconds: float) -> Measurement:
    topic, leader, burst = request(peer)
    latencies = one_by_one(leader, burst, seconds=seconds)
    peer.delete_topic(topic)
    return Measurement(latency_ms=percentiles_ms(latencies))


def moderate(per_second: int, peer: Peer, seconds: float) -> Measurement:
    topic, leader, burst = request(peer)
    latencies = at_rate(leader, burst, seconds=seconds, per_second=per_second)
    peer.delete_topic(topic)
    return Measurement(latency_ms=percentiles_ms(latencies))


ROWS = [
    Row("latency", "raw", "1 KB, one at a time", "", unpipelined),
    Row(
        "latency",
        "raw",
        f"1 KB, {MODERATE_PER_SECOND} requests/s",
        "",
        partial(moderate, MODERATE_PER_SECOND),
    ),
]

if __name__ == "__main__":
    run_alone("latency", ROWS)
