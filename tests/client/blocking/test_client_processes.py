"""Programs with clients: Ctrl-C, the end without close, and forks."""

from __future__ import annotations

import os
import time

import pytest
from tests.client.blocking.conftest import Fill
from tests.client.blocking.programs import Program, run_program
from tests.faults.processes import free_port

from ottla import Admin, Broker

IMPORTS = """
import os, sys, threading, time
import ottla
from ottla import Admin, Consumer, Producer
servers, topic, group = sys.argv[1:4]

def say(*words):
    print(*words, flush=True)

def member():
    consumer = Consumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest")
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    return consumer
"""


def members(broker: Broker, group: str) -> int:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return len(admin.describe_consumer_groups([group])[group].members)


def test_ctrl_c_in_poll_leaves_the_consumer_usable_and_closable(broker: Broker, fill: Fill) -> None:
    topic = fill(10)
    program = Program(
        IMPORTS
        + """
consumer = member()
while consumer.position((topic, 0)) < 10:
    consumer.poll(0.1)
try:
    say("polls")
    consumer.poll(60)
except KeyboardInterrupt:
    say("interrupted")
consumer.commit()
try:
    say(consumer.committed()[(topic, 0)].offset)
    for record in consumer:
        pass
except KeyboardInterrupt:
    say("interrupted again")
consumer.close()
say(threading.active_count())
""",
        broker.bootstrap_servers,
        topic,
        "g-" + topic,
    )
    assert program.next_line() == "polls"
    program.interrupt()
    assert [program.next_line(), program.next_line()] == ["interrupted", "10"]
    program.interrupt()
    assert program.end() == (0, ["interrupted again", "1"], "")
    assert members(broker, "g-" + topic) == 0


def test_clients_in_daemon_threads_end_with_the_program_and_say_nothing(
    broker: Broker, fill: Fill
) -> None:
    topic = fill(10)
    text = """
producer = Producer(bootstrap_servers=servers)
joined = threading.Event()

def send():
    while True:
        producer.send(topic, b"x")
        time.sleep(0.0005)

def poll():
    consumer = member()
    joined.set()
    while True:
        consumer.poll(60)

for work in (send, poll):
    threading.Thread(target=work, daemon=True).start()
say(joined.wait(20))
"""
    group = "g-" + topic
    assert run_program(IMPORTS + text, broker.bootstrap_servers, topic, group) == ["True"]
    assert members(broker, group) == 0, "the consumer has left"


def test_ctrl_c_in_a_program_with_clients_ends_it_promptly(broker: Broker, fill: Fill) -> None:
    topic = fill(10)
    program = Program(
        IMPORTS
        + """
producer = Producer(bootstrap_servers=servers)
consumer = member()
say("polls")
while True:
    consumer.poll(60)
""",
        broker.bootstrap_servers,
        topic,
        "g-" + topic,
    )
    assert program.next_line() == "polls"
    started = time.monotonic()
    program.interrupt()
    code, _, errors = program.end()
    assert time.monotonic() - started < 15
    assert code == -2
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert errors.count("Traceback") == 1
    assert members(broker, "g-" + topic) == 0


@pytest.mark.parametrize(
    "waits",
    [
        "consumer.poll(60)",
        "producer.send(topic, b'x').result(60)",
    ],
    ids=["poll", "result"],
)
def test_ctrl_c_ends_a_wait_although_another_thread_took_the_signal(
    broker: Broker, fill: Fill, waits: str
) -> None:
    program = f"""
import signal

def interrupt():
    time.sleep(1)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

consumer = member()
producer = Producer(bootstrap_servers=servers, linger_ms=60_000)
started = time.monotonic()
try:
    threading.Thread(target=interrupt, daemon=True).start()
    {waits}
except KeyboardInterrupt:
    say(time.monotonic() - started < 15)
os._exit(0)
"""
    topic = fill(0)
    assert run_program(IMPORTS + program, broker.bootstrap_servers, topic, "g-" + topic) == ["True"]


def test_a_program_that_closes_nothing_ends_quietly_and_sends_what_it_can(
    broker: Broker, fill: Fill
) -> None:
    topic = fill(10)
    started = time.monotonic()
    lines = run_program(
        IMPORTS
        + """
producer = Producer(bootstrap_servers=servers, linger_ms=60_000, delivery_timeout_ms=120_000)
admin = Admin(bootstrap_servers=servers)
consumer = member()
producer.send(topic, b"the last word")
say(len(admin.list_topics()) > 0)
""",
        broker.bootstrap_servers,
        topic,
        "g-" + topic,
    )
    assert lines == ["True"]
    assert time.monotonic() - started < 15
    assert members(broker, "g-" + topic) == 0
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        end = admin.list_offsets({(topic, 0): -1})
    assert [found.offset for found in end.values()] == [11]


def test_a_program_that_ends_without_having_sent_says_what_is_lost() -> None:
    with Broker(listen=f"127.0.0.1:{free_port()}") as own:
        program = Program(
            IMPORTS
            + """
producer = Producer(bootstrap_servers=servers, client_id="till-1")
producer.send(topic, b"x").result(10)
say("sent")
sys.stdin.readline()
for _ in range(5):
    producer.send(topic, b"x")
say("the end")
""",
            own.bootstrap_servers,
            "orders",
            "unused",
        )
        assert program.next_line() == "sent"
    program.go_on()
    assert program.next_line() == "the end"
    started = time.monotonic()
    code, _, errors = program.end()
    assert time.monotonic() - started < 15
    assert code == 0
    assert errors.splitlines()[-1:] == [
        "till-1 lost 5 records that were not acknowledged: 5 for orders (the producer was closed before)"
    ]
    assert "Traceback" not in errors


FORKING = (
    IMPORTS
    + """
def refused(what, call):
    try:
        call()
    except ottla.IllegalStateError as error:
        assert "create clients after the fork" in str(error), error
        say("child: no", what)

producer = Producer(bootstrap_servers=servers)
admin = Admin(bootstrap_servers=servers)
consumer = member()
producer.send(topic, b"before").result(10)
if os.fork() == 0:
    refused("send", lambda: producer.send(topic, b"child"))
    refused("flush", producer.flush)
    refused("poll", lambda: consumer.poll(0))
    refused("iteration", lambda: next(iter(consumer)))
    refused("metrics", consumer.metrics)
    refused("admin", admin.list_topics)
    with Producer(bootstrap_servers=servers) as own:
        say("child:", own.send(topic, b"own").result(10).offset)
    del producer, consumer, admin
    {end}
say("status", os.wait()[1])
say(producer.send(topic, b"after").result(10).offset)
while consumer.position((topic, 0)) < 3:
    consumer.poll(1.0)
consumer.commit()
say(consumer.committed()[(topic, 0)].offset, len(admin.list_topics()) > 0)
for client in (producer, consumer, admin):
    client.close()
"""
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("end", ["sys.exit(0)", "os._exit(0)"])
def test_a_forked_child_cannot_use_its_parents_clients_and_does_not_harm_them(
    broker: Broker, fill: Fill, end: str
) -> None:
    topic = fill()
    # By a name: what looks names up must not be in the child's way either.
    servers = broker.bootstrap_servers.replace("127.0.0.1", "localhost")
    lines = run_program(FORKING.replace("{end}", end), servers, topic, "g-" + topic)
    refused = ["send", "flush", "poll", "iteration", "metrics", "admin"]
    assert lines == [
        *(f"child: no {what}" for what in refused),
        "child: 1",
        "status 0",
        "2",
        "3 True",
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_in_the_middle_of_sends_loses_nothing_and_the_child_does_not_wait_for_ever(
    broker: Broker, fill: Fill
) -> None:
    lines = run_program(
        """
import os, signal, sys, warnings
import ottla
warnings.simplefilter("ignore", DeprecationWarning)
server, topic = sys.argv[1:]
producer = ottla.Producer(bootstrap_servers=server, linger_ms=60_000)
futures = [producer.send(topic, b"%d" % number) for number in range(100)]
for _ in range(3):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        refused = 0
        for call in (futures[-1].result, futures[-1].exception, lambda: producer.send(topic, b"child")):
            try:
                call()
            except ottla.errors.IllegalStateError:
                refused += 1
        with ottla.Producer(bootstrap_servers=server) as own:
            assert own.send(topic, b"child").result(15).offset >= 0
        os._exit(10 + refused)
    futures += [producer.send(topic, b"%d" % number) for number in range(len(futures), len(futures) + 100)]
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
producer.flush()
print(len({future.result(10).offset for future in futures}))
producer.close()
with ottla.Consumer(bootstrap_servers=server, auto_offset_reset="earliest") as consumer:
    consumer.assign([(topic, 0)])
    values = []
    while len(values) < 403:
        values += [record.value for record in consumer.poll(5)]
mine = [int(value) for value in values if value != b"child"]
print(mine == list(range(400)), values.count(b"child"))
""",
        broker.bootstrap_servers,
        fill(),
    )
    assert lines == ["13", "13", "13", "400", "True 3"]
