"""What the console remembers of a cluster: points over time, in bounded memory."""

from __future__ import annotations

from ottla.console.cluster.tracks import Track

STEP_MS = 1_000


def track(max_things: int = 10, kept_ms: int = 10_000) -> Track:
    return Track(("rate", "lag"), STEP_MS, kept_ms, max_things)


def test_a_point_is_the_mean_of_its_step() -> None:
    points = track()
    points.add(0, {"a": (10.0, 1.0)})
    points.add(500, {"a": (20.0, None)})
    points.add(1000, {"a": (50.0, 7.0)})
    assert points.read("a", 10_000, 0.0) == ([500, 1000], {"rate": [15.0, 50.0], "lag": [1.0, 7.0]})


def test_a_thing_that_began_later_has_no_value_before() -> None:
    points = track()
    points.add(0, {"a": (1.0, 0.0)})
    points.add(1000, {"a": (1.0, 0.0)})
    points.add(2000, {"a": (1.0, 0.0), "b": (2.0, 3.0)})
    points.add(3000, {"b": (4.0, 3.0)})
    times, values = points.read("b", 10_000, 0.0)
    assert times == [0, 1000, 2000, 3000]
    assert values["rate"] == [None, None, 2.0, 4.0]
    assert points.read("a", 10_000, 0.0)[1]["rate"] == [1.0, 1.0, 1.0, None]


def test_an_idle_thing_takes_no_room_and_is_read_as_idle() -> None:
    points = track(max_things=1)
    for at_ms in range(0, 5000, STEP_MS):
        points.add(at_ms, {"idle": (0.0, 0.0), "busy": (1.0, 0.0)})
    assert points.left_out_count == 0
    assert points.read("idle", 10_000, 0.0)[1]["rate"] == [0.0] * 5


def test_things_beyond_the_limit_are_counted_and_left_out() -> None:
    points = track(max_things=2)
    for at_ms in range(0, 5000, STEP_MS):
        points.add(at_ms, dict.fromkeys("abc", (1.0, 1.0)))
    assert points.left_out_count == 1


def test_old_points_and_things_that_became_idle_are_dropped() -> None:
    points = track(max_things=1)
    points.add(0, {"old": (1.0, 1.0)})
    for at_ms in range(STEP_MS, 30_000, STEP_MS):
        points.add(at_ms, {"old": (0.0, 0.0), "new": (1.0, 1.0)})
    assert points.left_out_count == 0
    times, values = points.read("new", 10_000, 0.0)
    assert times == list(range(19_000, 30_000, STEP_MS))
    assert values["rate"][-1] == 1.0
    assert max(len(points._times), *(len(row[0]) for row in points._rows.values())) <= 13


def test_a_moment_without_an_answer_is_a_gap() -> None:
    points = track()
    for at_ms in (0, 1000):
        points.add(at_ms, {"a": (1.0, 1.0)})
    points.add(2000, {})
    points.add(3000, {"a": (1.0, 1.0)})
    assert points.read("a", 10_000, None)[1]["rate"] == [1.0, 1.0, None, 1.0]
