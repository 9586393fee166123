"""How bad the network is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Weather:
    """How bad the network is; the numbers without a unit are probabilities, each for one message."""

    delay_seconds: tuple[float, float] = (0.001, 0.02)
    slow: float = 0.0
    slow_seconds: tuple[float, float] = (0.1, 8.0)
    lost: float = 0.0  # the connection is silent from then on
    broken: float = 0.0  # the connection ends
    doubled: float = 0.0  # a request comes a second time, by itself
    late: float = 0.0  # of those that come a second time, how many only come then
    # How much more often what nodes send to each other is slow, or doubled.
    between_nodes: float = 1.0


CALM = Weather()
