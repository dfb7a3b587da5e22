"""Claims of many runs by several workers: one owner at a time, whatever happens to whom and to whichever clock."""

import json
import threading

import pytest

from lrpt.runs.claims import Claims


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def workers(tmp_path, clock):
    return [Claims(tmp_path / "claims", 60, clock) for _ in range(3)]


def test_one_owner(workers):
    one, other, _ = workers
    claim = one.take("run")
    assert claim is not None
    assert other.take("run") is None
    assert one.take("run") is None
    assert other.take("another") is not None
    assert one.beat(claim)


def test_many_at_once(tmp_path):
    taken, barrier = [], threading.Barrier(8)

    def work():
        claims = Claims(tmp_path / "claims", 60)
        barrier.wait()
        taken.extend(claim for claim in map(claims.take, ("a", "b", "c")) if claim is not None)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claim.name for claim in taken) == ["a", "b", "c"]


def test_a_claim_that_beats_is_kept_and_one_that_does_not_is_taken_over(workers, clock):
    owner, other, third = workers
    claim = owner.take("run")
    for _ in range(5):
        assert other.take("run") is None
        clock.now += 50
        assert owner.beat(claim)
    assert other.take("run") is None
    clock.now += 59
    assert other.take("run") is None
    clock.now += 2
    heir = other.take("run")
    assert (heir.number, heir.tries) == (2, 2)
    assert third.take("run") is None
    assert not owner.beat(claim), "an owner who slept must find that he has lost"
    assert other.beat(heir)


def test_two_who_find_the_same_stale_claim(workers, clock):
    owner, one, other = workers
    owner.take("run")
    assert one.take("run") is None
    assert other.take("run") is None
    clock.now += 61
    assert [claims.take("run") is not None for claims in (one, other)] == [True, False]


def test_the_date_makes_no_difference(workers, clock, monkeypatch):
    """Neither a date that jumps, nor files that seem to be of tomorrow."""
    owner, other, _ = workers
    claim = owner.take("run")
    assert other.take("run") is None
    monkeypatch.setattr("time.time", lambda: 0.0)
    clock.now += 59
    assert other.take("run") is None
    assert owner.beat(claim)
    monkeypatch.setattr("time.time", lambda: 1e12)
    clock.now += 59
    assert other.take("run") is None


def test_released_and_failed(workers):
    one, other, _ = workers
    one.release(one.take("run"))
    claim = other.take("run")
    assert (claim.number, claim.tries) == (2, 1)
    other.fail(claim, "the loss is nan")
    assert one.take("run") is None
    assert one.failure("run") == "the loss is nan"
    one.forget_failures()
    assert one.failure("run") is None
    assert one.take("run").tries == 1


def test_workers_that_are_lost_with_a_run_are_counted_while_it_gets_no_further(workers, clock):
    assert workers[0].take("run", 0).tries == 1
    for progress, tries in ((0, 2), (0, 3), (4, 1), (4, 2)):
        heir = Claims(workers[0].folder, 60, clock)
        assert heir.take("run", progress) is None
        clock.now += 61
        assert heir.take("run", progress).tries == tries


@pytest.mark.parametrize("content", ["", "{", "[]", "\x00", '{"owner": "me"}'])
def test_a_claim_that_was_half_written_becomes_stale(workers, clock, content):
    """As by a worker that died, or a disk that was full, right after making it."""
    owner, other, _ = workers
    claim = owner.take("run")
    (path,) = owner.folder.iterdir()
    path.write_text(content)
    assert other.take("run") is None
    clock.now += 61
    assert other.take("run").number == claim.number + 1


def test_names_that_begin_alike(workers):
    one, other, _ = workers
    one.take("quick-seed1")
    assert other.take("quick-seed1.5") is not None
    assert other.take("quick-seed") is not None
    assert {json.loads(path.read_text())["state"] for path in one.folder.iterdir()} == {"held"}
