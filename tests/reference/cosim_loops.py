"""Loops that live in the environment of a whole machine: they lose nodes, get them back, watch them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import simpy

from tests.reference import cca, dca, hdca, hmw, openmp
from tests.reference.levels import Levels
from tests.reference.locks import new_lock
from tests.reference.loops import Case, Ranked

BATCH = 2 * 10**9
"""Priority from which on the batch level acts: after all that PEs do at the same time."""
LATE = BATCH + 10**5
"""Priority of PEs that may hear until the last moment that they must not ask: after all messages."""


class Moment(simpy.Event):
    """Something that happens after a delay; of all that happens at one time, in order of priority."""

    def __init__(
        self, env: simpy.Environment, delay: Fraction, priority: int, action: Callable[[], None] | None = None
    ) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        if action is not None:
            self.callbacks.append(lambda _: action())
        env.schedule(self, priority=priority, delay=delay)


class Change(NamedTuple):
    """From a time on the PEs of some places (nodes in allocation order) ask no more, or ask again."""

    at: Fraction
    places: tuple[int, ...]
    back: bool


class _LiveDca(dca._Loop):
    def __init__(self, env: simpy.Environment, case: Case, owner: LiveLoop) -> None:
        super().__init__(case)
        self.env, self.window, self.owner = env, new_lock(env, case, 0), owner
        self.last: dict[int, tuple[int, int]] = {}

    def begin_pe(self, rank: int) -> None:
        self.env.process(self.pe(rank)).callbacks.append(lambda _: self.owner.is_done(rank))

    def obtain(self, rank: int) -> Iterator[Any]:
        return (yield from super().obtain(rank)) if (yield from self.owner.goes_on(rank)) else None


class _LiveCca(cca._Loop):
    def __init__(self, env: simpy.Environment, case: Case, owner: LiveLoop) -> None:
        super().__init__(case)
        self.env, self.bell, self.owner = env, env.event(), owner

    def begin_pe(self, rank: int) -> None:
        if rank == 0:
            self.env.process(self.master())
        else:
            self.env.process(self.worker(rank)).callbacks.append(lambda _: self.owner.is_done(rank))

    def request(self, rank: int, done: tuple[Any, ...] | None) -> simpy.Event:
        reply = super().request(rank, done)
        if rank == 0:  # the master is told when it serves itself, and goes on serving
            reply.callbacks.append(lambda event: self.owner.is_done(0) if event.value is None else None)
        return reply

    def worker(self, rank: int) -> Iterator[Any]:
        latency = Fraction(self.case.latency[rank])
        while (yield from self.owner.goes_on(rank)):
            requested = self.env.now
            yield Ranked(self.env, latency, rank)
            chunk = yield self.request(rank, self.done.pop(rank, None))
            yield self.env.timeout(latency)
            start = self.env.now
            if chunk is None:
                return
            for step, first, size in (chunk, *self.choosing.further(chunk, self.case.p)):
                if (step, first, size) != chunk:
                    requested = start = self.env.now
                yield self.env.timeout(self.case.elapsed(rank, first, size, start))
                self.log.rows.append((rank, step, first, size, requested, start, self.env.now))
                self.finish(rank, first, size, requested, start)


class _LiveLevels(Levels):
    """Levels whose nodes hear while the loop is running that they are to leave it, or to come back."""

    def __init__(self, case: Case, owner: LiveLoop) -> None:
        super().__init__(case)
        self.owner = owner

    def begins(self, env: simpy.Environment, v: int) -> Iterator[Any]:
        return True
        yield

    def may_ask(self, env: simpy.Environment, v: int) -> Iterator[Any]:
        return self.got[v] == 0 or (yield from self.owner.is_wanted(v, v))

    def wait_for_return(self, env: simpy.Environment, v: int) -> Iterator[Any]:
        """Nobody knows when; whoever comes back begins anew."""
        return False
        yield

    def is_done(self, rank: int) -> None:
        if self.case.node_of_pe[rank] not in self.finished:
            self.owner.left.add(rank)
        self.owner.is_done(rank)


class _LiveHdca(hdca._Loop):
    def __init__(self, env: simpy.Environment, case: Case, owner: LiveLoop) -> None:
        self.live = _LiveLevels(case, owner)
        super().__init__(case, env, self.live)

    def begin_pe(self, rank: int) -> None:
        self.env.process(self.pe(rank)).callbacks.append(lambda _: self.live.is_done(rank))


class _LiveHmw(hmw._Loop):
    def __init__(self, env: simpy.Environment, case: Case, owner: LiveLoop) -> None:
        assert not case.dedicated, "when PE 0 serves last is known at the end alone"
        self.live = _LiveLevels(case, owner)
        super().__init__(case, env, self.live)
        self.serving: set[int] = set()

    def begin_pe(self, rank: int) -> None:
        master = self.masters[self.case.node_of_pe[rank]]
        if rank in self.serving:
            master.ask()
        elif rank == master.rank:
            self.serving.add(rank)
            self.env.process(master.run())
        else:
            self.env.process(self.worker(master, rank)).callbacks.append(lambda _: self.live.is_done(rank))

    def is_done(self, rank: int) -> None:
        self.live.is_done(rank)


class _LiveOpenmp(openmp._Loop):
    def __init__(self, env: simpy.Environment, case: Case, owner: LiveLoop) -> None:
        self.live = _LiveLevels(case, owner)
        super().__init__(case, env, self.live)

    def begin_pe(self, rank: int) -> None:
        v = self.case.node_of_pe[rank]
        pes = self.levels.pes[v]
        if self.case.nowait:
            self.env.process(self.thread(v, rank)).callbacks.append(lambda _: self.live.is_done(rank))
        elif rank == pes[0]:
            self.env.process(self.process(v)).callbacks.extend(
                lambda _, pe=pe: self.live.is_done(pe) for pe in pes
            )


_LOOPS = {"dca": _LiveDca, "cca": _LiveCca, "hdca": _LiveHdca, "hmw": _LiveHmw, "mpi+openmp": _LiveOpenmp}


class LiveLoop:
    """One loop on some nodes, and what its application knows of it.

    ``place`` says for each PE the node, as its place in allocation order. With ``may_leave`` the PEs of all
    nodes but the first decide late in a moment whether they ask.
    """

    def __init__(
        self,
        env: simpy.Environment,
        case: Case,
        model: str,
        place: Sequence[int],
        may_leave: bool,
        on_idle: Callable[[int], None],
        on_end: Callable[[], None],
    ) -> None:
        self.env, self.case, self.model, self.place = env, case, model, list(place)
        self.may_leave, self.on_idle, self.on_end = may_leave, on_idle, on_end
        self.began = env.now
        self.excluded: set[int] = set()
        self.active = set(range(case.p))
        self.left: set[int] = set()  # PEs that have left, and do not know whether there is more work
        self.idle_since: dict[int, Fraction] = {}
        self.changes: list[Change] = []
        self.ended = False
        if may_leave:
            slow = model == "dca" and case.atomic > 0
            assert all(slow or case.latency[pe] > 0 for pe in range(case.p) if place[pe] > 0)
        self.loop = _LOOPS[model](env, case, self)
        for rank in range(case.p):
            self.loop.begin_pe(rank)

    def goes_on(self, rank: int) -> Iterator[Any]:
        """Process step: whether a PE asks for another chunk now."""
        wanted = yield from self.is_wanted(self.place[rank], rank)
        if not wanted:
            self.left.add(rank)
        return wanted

    def is_wanted(self, place: int, turn: int) -> Iterator[Any]:
        """Process step: whether a node may ask for another chunk now."""
        if self.may_leave and place > 0 and place not in self.excluded:
            yield Moment(self.env, Fraction(0), LATE + turn)
        return place not in self.excluded

    def is_done(self, rank: int) -> None:
        """A PE has been told that there is no more work, or has left."""
        place = self.place[rank]
        self.active.remove(rank)
        if not any(self.place[other] == place for other in self.active):
            self.idle_since[place] = self.env.now
            self.on_idle(place)
        if not self.active:
            self.ended = True
            self.on_end()

    def change(self, places: Sequence[int], back: bool) -> None:
        """Exclude nodes from now on, or let them work again.

        A PE that was told that there is no more work knows that for good; a node of such PEs is idle at once.
        """
        if self.ended:
            return
        self.changes.append(Change(self.env.now, tuple(places), back))
        for place in places:
            if back:
                self.excluded.remove(place)
                self.work_again(place)
            else:
                self.excluded.add(place)

    def work_again(self, place: int) -> None:
        again = {rank for rank in self.left if self.place[rank] == place}
        self.idle_since.pop(place)
        self.left -= again
        self.active |= again
        for rank in sorted(again):
            self.loop.begin_pe(rank)
        if not again:
            self.idle_since[place] = self.env.now
            self.on_idle(place)

    def foresee(self, *more: Change) -> tuple[Fraction, dict[int, Fraction]]:
        """Simulate it alone, with what has happened to it and what might: its end and its idle times."""
        env = simpy.Environment(self.began)
        double = LiveLoop(
            env, self.case, self.model, self.place, self.may_leave, lambda place: None, lambda: None
        )
        for change in [*self.changes, *more]:
            Moment(env, change.at - self.began, BATCH, lambda c=change: double.change(c.places, c.back))
        env.run()
        return max(double.idle_since.values()), double.idle_since

    def chunks(self, until: Fraction) -> list[tuple[Any, ...]]:
        """What was executed before a time: (pe, step, first, size, requested, start, end)."""
        rows = [row for row in self.loop.log.chunks() if row[5] < until or row[6] <= until]
        return [(*row[:6], min(row[6], until)) for row in rows]
