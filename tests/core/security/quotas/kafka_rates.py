"""Kafka's Rate, TokenBucket and QuotaUtils, written down line by line: what our rates are compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Sample:
    start_ms: int
    last_ms: int
    value: float = 0.0


class KafkaRate:
    """org.apache.kafka.common.metrics.stats.Rate over a WindowedSum."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self.number = samples
        self.window_ms = window_ms
        self.samples: list[Sample] = []
        self.current = 0

    def record(self, value: float, now_ms: int) -> None:
        if not self.samples:
            self.samples.append(Sample(now_ms, now_ms))
        sample = self.samples[self.current]
        if now_ms - sample.start_ms >= self.window_ms:
            self.current = (self.current + 1) % (self.number + 1)
            if self.current >= len(self.samples):
                self.samples.append(Sample(now_ms, now_ms))
            else:
                self.samples[self.current] = Sample(now_ms, now_ms)
            sample = self.samples[self.current]
        sample.value += value
        sample.last_ms = now_ms

    def purge(self, now_ms: int) -> None:
        for place, sample in enumerate(self.samples):
            if now_ms - sample.last_ms >= self.number * self.window_ms:
                self.samples[place] = Sample(now_ms, now_ms)

    def window_size(self, now_ms: int) -> int:
        self.purge(now_ms)
        if not self.samples:
            self.samples.append(Sample(now_ms, now_ms))
        total = now_ms - min(sample.start_ms for sample in self.samples)
        full = total // self.window_ms
        if full < self.number - 1:
            total += (self.number - 1 - full) * self.window_ms
        return max(total, 1)

    def measure(self, now_ms: int) -> float:
        self.purge(now_ms)
        return sum(sample.value for sample in self.samples) / (self.window_size(now_ms) / 1000)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        value = self.measure(now_ms)
        if value <= bound:
            return 0
        return java_round((value - bound) / bound * self.window_size(now_ms))


class KafkaTokenBucket:
    """org.apache.kafka.common.metrics.stats.TokenBucket, in a broker whose clock began in 1970."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self.number = samples
        self.window_ms = window_ms
        self.tokens = 0.0
        self.updated_ms = 0

    def refill(self, quota: float, now_ms: int) -> float:
        burst = self.number * (self.window_ms / 1000) * quota
        self.tokens = min(burst, self.tokens + quota * ((now_ms - self.updated_ms) / 1000))
        self.updated_ms = now_ms
        return burst

    def record(self, value: float, quota: float, now_ms: int) -> None:
        burst = self.refill(quota, now_ms)
        self.tokens = min(burst, self.tokens - value)

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        self.refill(quota, now_ms)
        return java_round(-self.tokens / quota * 1000) if self.tokens < 0 else 0


def java_round(value: float) -> int:
    below = math.floor(value)
    return below + (value - below >= 0.5)
