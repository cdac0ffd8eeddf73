"""The order in which jobs go to nodes."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from bench.run.cluster.placement import ALIKE, Node, Queue, free, in_turn


@dataclass(frozen=True)
class Job:
    name: int
    model: str | None = None
    needs: Job | None = None


def drained(queue: Queue) -> list[int]:
    taken = []
    while queue:
        if (index := queue.take()) is None:
            break
        taken.append(index)
        queue.ended(index)
    return taken


@given(st.lists(st.floats(0.1, 100)))
def test_the_longest_goes_first(lengths):
    taken = drained(Queue([Job(number) for number in range(len(lengths))], lengths))
    assert [lengths[index] for index in taken] == sorted(lengths, reverse=True)


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_each_job_is_taken_once_after_what_it_needs(seed, number):
    draw = random.Random(seed)
    jobs: list[Job] = []
    for name in range(number):
        trainings = [job for job in jobs if job.needs is None]
        jobs.append(Job(name, needs=draw.choice([None, *trainings])))
    queue, ended, running = Queue(jobs, [draw.uniform(0.1, 100) for _ in jobs]), set(), []
    while queue or running:
        assert len(queue) + len(running) + len(ended) == number
        index = queue.take() if draw.random() < 0.5 or not running else None
        if index is not None:
            assert jobs[index].needs is None or jobs[index].needs.name in ended
            running.append(index)
        elif running:
            index = running.pop(draw.randrange(len(running)))
            if draw.random() < 0.25:  # it is lost, and waits again
                queue.add(index)
            else:
                ended.add(index)
                queue.ended(index)
    assert ended == set(range(number))


def test_what_needs_a_job_that_failed_is_not_taken():
    well, fails = Job(0, "a"), Job(1, "b")
    jobs = [well, fails, Job(2, "b", fails), Job(3, "a", well), Job(4, "b", fails)]
    queue = Queue(jobs, [5.0, 4.0, 3.0, 2.0, 1.0])
    assert (queue.take(), queue.take(), queue.take()) == (0, 1, None) and len(queue) == 3
    assert list(queue.followers(1)) == [2, 4]
    queue.ended(1, failed=True)
    assert len(queue) == 1 and queue.take() is None and not queue.followers(1)
    queue.ended(0)
    assert drained(queue) == [3]


def test_a_training_counts_with_the_longest_cell_that_it_holds_back():
    training = Job(0, "a")
    queue = Queue([training, Job(1), Job(2, "a", training)], [1.0, 5.0, 6.0])
    assert drained(queue) == [0, 2, 1]


def test_a_job_about_as_long_goes_ahead_where_its_model_is():
    jobs = [Job(0, "a"), Job(1, "b"), Job(2, "c")]
    long, alike, short = 10.0, 10.0 * ALIKE, 9.9 * ALIKE
    model = lambda job: job.model  # noqa: E731
    assert Queue(jobs, [long, alike, short], model).take({"b", "c"}) == 1
    assert Queue(jobs, [long, alike, short], model).take({"c"}) == 0
    queue = Queue(jobs, [long, alike, short], model)
    assert [queue.take({"b"}) for _ in range(4)] == [1, 0, 2, None]


@dataclass(frozen=True)
class AtWork:
    node: str
    waits: bool = False


def test_a_job_goes_to_the_emptiest_node_and_prefers_what_its_models_are_for():
    nodes = [Node("a", "first", 4, 4), Node("b", "first", 2, 2, {"x"}), Node("c", "second", 1, 1)]
    running = [AtWork("a"), AtWork("a"), AtWork("a"), AtWork("b"), AtWork("c")]
    found = free(nodes, running, apart=False, limit=10)
    assert [node.id for node in found] == ["b", "a"]  # half full, three quarters full; the third has no room
    jobs = [Job(0, "y"), Job(1, "x")]
    queue = Queue(jobs, [1.0, 1.0], lambda job: job.model)
    assert queue.take(found[0].models) == 1  # the one whose model is there


def test_a_machine_is_given_whole_only_while_nothing_else_is_at_work_on_it():
    nodes = [Node("a", "first", 4, 4), Node("b", "first", 4, 4), Node("c", "second", 4, 4)]
    assert [node.id for node in free(nodes, [], apart=True, limit=10)] == ["a", "b", "c"]
    assert [node.id for node in free(nodes, [AtWork("a")], apart=True, limit=10)] == ["c"]  # b is on the same machine
    assert free(nodes, [AtWork("b"), AtWork("c")], apart=True, limit=10) == []
    assert len(free(nodes, [AtWork("a")], apart=False, limit=10)) == 3


@given(st.lists(st.sampled_from("abc")), st.booleans(), st.integers(0, 6))
def test_no_more_jobs_run_at_once_than_the_limit_or_the_slots(running, apart, limit):
    nodes = [Node("a", "first", 2, 2), Node("b", "first", 1, 1), Node("c", "second", 3, 3)]
    found = free(nodes, map(AtWork, running), apart, limit)
    assert all(running.count(node.id) < node.slots for node in found)
    if len(running) >= limit:
        assert found == []


def test_a_job_goes_to_no_slot_that_others_use():
    nodes = [Node("a", "first", 4, 4, taken=4), Node("b", "second", 4, 4, taken=2), Node("c", "third", 4, 4)]
    assert [node.id for node in free(nodes, [], apart=False, limit=10)] == ["c", "b"]
    running = [AtWork(node) for node in "bbccc"]
    assert [node.id for node in free(nodes, running, apart=False, limit=10)] == ["c"]
    assert [node.id for node in free(nodes, running, apart=True, limit=10)] == []
    assert [node.id for node in free(nodes, [AtWork("b")], apart=True, limit=10)] == ["c"]  # not a: others use it


def test_where_others_use_nodes_one_job_waits_on_each():
    nodes = [Node("a", "first", 4, 4, taken=4), Node("b", "second", 4, 4, taken=1), Node("c", "third", 4, 4)]
    running = [AtWork("a", waits=True), *(AtWork("b") for _ in range(3)), *(AtWork("c") for _ in range(4))]
    assert [node.id for node in in_turn(nodes, running, apart=False, limit=10)] == ["b"]
    assert [node.id for node in in_turn(nodes, running[1:], apart=False, limit=10)] == ["a", "b"]
    assert in_turn(nodes, running, apart=False, limit=len(running)) == []
    assert [node.id for node in in_turn(nodes, [AtWork("b")], apart=True, limit=10)] == ["a"]
    same = [Node("a", "first", 4, 4, taken=4), Node("b", "first", 4, 4, taken=1)]
    assert in_turn(same, [AtWork("b")], apart=True, limit=10) == []  # a is on the same machine
