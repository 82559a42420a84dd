"""Both levels at once, written to be obviously right: one SimPy environment in which every PE lives.

Nothing is forecast: PEs take chunks, applications watch their nodes, the batch system hears of it by
messages. The one look ahead is an application's own, which simulates itself alone before it answers.
Numbers may be floats, of which the exact values are taken, or fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import accumulate
from math import ceil
from typing import Any

import simpy

from tests.reference.cosim_answers import answer
from tests.reference.cosim_data import (
    FOREVER,
    Asking,
    Drain,
    Failure,
    Job,
    Message,
    Number,
    Platform,
    Rules,
    Run,
    Stay,
)
from tests.reference.cosim_loops import BATCH, LATE, LiveLoop, Moment
from tests.reference.loops import Case

# The order of what happens at one time; messages besides in order of job id.
END, KILL, RELEASE, FAIL, REPAIR = range(BATCH, BATCH + 5)
MESSAGE, SUBMIT, PASS = BATCH + 100, LATE + 10**6, LATE + 10**7


class Machine:
    """The batch system and the applications of one run."""

    def __init__(self, platform: Platform, rules: Rules) -> None:
        self.platform, self.rules = platform, rules
        # A request that is sent and answered at one time would come after chunks were asked for at that time.
        self.may_leave = rules.requests and rules.answer in ("always", "tolerance")
        assert rules.latency > 0 or not self.may_leave
        self.env = simpy.Environment(Fraction(0))
        self.latency = Fraction(rules.latency)
        self.free = set(range(len(platform.cores)))
        self.down: list[int] = []  # a node once for every failure that is not repaired
        self.queue: list[Run] = []
        self.running: list[Run] = []
        self.messages: list[Message] = []
        self.passes_due: set[Fraction] = set()
        self.released: set[int] = set()  # nodes released early since the last pass
        self.asking: Asking | None = None
        self.asked_for: set[int] = set()
        self.promised: dict[tuple[int, int], Run] = {}  # (owner's id, node): for whom
        self.claims: dict[int, list[Run]] = {}  # node: who has yielded it, the last one last
        self.shares: dict[int, list[Fraction]] = {}  # executable: idle shares of its completed runs
        self.ends: dict[int, tuple[Fraction, str]] = {}  # job that has ended for good: when, and its state

    def simulate(self, jobs: list[Job]) -> list[Run]:
        self.last = {job.id: Run(job) for job in sorted(jobs, key=lambda job: (job.submit, job.id))}
        for run in self.last.values():
            if not run.job.after:
                self.later(run.job.submit, SUBMIT, lambda run=run: self.submit(run))
        for failure in self.rules.failures:
            self.later(failure.at, FAIL, lambda failure=failure: self.fail(failure))
        for drain in self.rules.drains:
            self.later(drain.start, FAIL, lambda drain=drain: self.drain(drain))
        self.env.run()
        runs = [self.outcome(run) for run in self.last.values()]
        for run in runs:
            for attempt in (*run.earlier, run):
                if attempt.loop is not None:
                    assert attempt.end is not None
                    attempt.chunks = attempt.loop.chunks(attempt.end)
        self.messages.sort(key=lambda message: message[:4])
        return runs

    def outcome(self, run: Run) -> Run:
        """What counts as the job's run: if it never started again, the attempt before."""
        if run.state != "waiting" or not run.earlier:
            return run
        last = run.earlier[-1]
        last.state = "failed"
        return last

    def later(self, delay: Number, priority: int, action: Callable[[], None]) -> None:
        Moment(self.env, Fraction(delay), priority, action)

    def send(
        self,
        kind: str,
        run: Run,
        node: int,
        arrive: Callable[[], None],
        priority: int = MESSAGE,
        facts: tuple[Any, ...] = (),
    ) -> None:
        now = self.env.now
        self.messages.append(Message(now, run.job.id, kind, node, now + self.latency, facts))
        self.later(self.latency, priority if priority < MESSAGE else priority + run.job.id, arrive)

    # Submissions, starts and ends

    def submit(self, run: Run) -> None:
        run.eligible = self.env.now
        if run.job.units > len(self.usable(run, range(len(self.platform.cores)))):
            self.reject(run)
            return
        self.queue.append(run)
        self.queue.sort(key=lambda run: (run.eligible, run.job.submit, run.job.id))
        self.need_pass()

    def usable(self, run: Run, nodes: Iterable[int]) -> set[int]:
        """Which of some nodes a job may use."""
        return {node for node in nodes if run.job.may_use is None or node in run.job.may_use}

    def reject(self, run: Run) -> None:
        run.state = "rejected"
        self.note_end(run)

    def note_end(self, ended: Run) -> None:
        """Submit the jobs for which this was the last one to wait for, or turn them away."""
        self.ends[ended.job.id] = self.env.now, ended.state
        for run in list(self.last.values()):
            after = run.job.after
            if ended.job.id not in [job for job, _, _ in after] or run.state == "rejected":
                continue
            if any(must and self.ends.get(job, (0, "completed"))[1] != "completed" for job, must, _ in after):
                self.reject(run)
            elif all(job in self.ends for job, _, _ in after):
                allowed = max(self.ends[job][0] + Fraction(think) for job, _, think in after)
                due = max(Fraction(run.job.submit), allowed)
                self.later(due - self.env.now, SUBMIT, lambda run=run: self.submit(run))

    def start(self, run: Run, nodes: list[int]) -> None:
        now = self.env.now
        self.queue.remove(run)
        self.running.append(run)
        self.free -= set(nodes)
        run.state, run.start, run.nodes, run.held = "running", now, tuple(nodes), set(nodes)
        run.stays = [Stay(node, now) for node in nodes]
        self.start_loop(run)
        if self.rules.kill:
            self.later(run.job.estimate, KILL, lambda: self.finish(run, "killed"))

    def start_loop(self, run: Run) -> None:
        cores, speed = self.platform.cores, self.platform.speed
        place = [k for k, node in enumerate(run.nodes) for _ in range(cores[node])]
        times = [self.platform.within if k == 0 else self.platform.between for k in place]
        case = Case(
            prefix=tuple(accumulate((Fraction(cost) for cost in run.job.costs), initial=Fraction(0))),
            speed=tuple(speed[run.nodes[k]] for k in place),
            latency=(0.0, *times[1:]),
            node_of_pe=tuple(place),
            intra=self.platform.within,
            **self.rules.loop,
        )
        run.loop = LiveLoop(
            self.env,
            case,
            self.rules.model,
            place,
            self.may_leave,
            lambda place: self.tell_idle(run, place),
            lambda: self.later(0, END, lambda: self.finish(run, "completed")),
        )

    def finish(self, run: Run, state: str) -> None:
        """End a job; its nodes are free but those that are out of use."""
        if run.state != "running":
            return
        now = self.env.now
        run.state, run.end = state, now
        for node in run.held:
            run.stay(node).end = now
        self.free |= run.held - set(self.down)
        run.held = set()
        self.running.remove(run)
        self.promised = {key: head for key, head in self.promised.items() if key[0] != run.job.id}
        if state == "completed":
            self.note_history(run)
            if self.rules.rca:
                self.send("job-completed", run, -1, lambda: None)
        if state != "failed":
            self.note_end(run)
        self.need_pass()

    def note_history(self, run: Run) -> None:
        assert run.loop is not None
        assert run.start is not None
        assert run.end is not None
        idle = sum(run.end - time for time in run.loop.idle_since.values())
        length = len(run.nodes) * (run.end - run.start)
        if run.job.executable >= 0:
            self.shares.setdefault(run.job.executable, []).append(idle / length if length else Fraction(0))

    # Idle nodes and failures

    def tell_idle(self, run: Run, place: int) -> None:
        if self.rules.rca and run.state == "running":
            node = run.nodes[place]
            self.send("node-idle", run, node, lambda: self.release(run, node), RELEASE)

    def release(self, run: Run, node: int) -> None:
        if run.state != "running":
            return  # it is free already
        assert len(run.held) > 1, "the last node is idle when the job has ended"
        run.held.remove(node)
        stay = run.stay(node)
        stay.end, stay.released = self.env.now, True
        self.released.add(node)  # a drain may end before the pass
        if node not in self.down:
            self.free.add(node)
        self.promised.pop((run.job.id, node), None)
        self.need_pass()

    def fail(self, failure: Failure) -> None:
        node = failure.node
        self.free.discard(node)
        self.down.append(node)
        for run in [run for run in self.running if node in run.held]:
            self.finish(run, "failed")
            if self.rules.restart and len(run.earlier) < self.rules.max_restarts:
                self.start_again(run)
            else:
                self.note_end(run)
        self.need_pass()
        if failure.repair is not None:
            self.later(failure.repair, REPAIR, lambda: self.repair(node))

    def repair(self, node: int) -> None:
        self.down.remove(node)
        if node not in self.down and not any(node in run.held for run in self.running):
            self.free.add(node)
        self.need_pass()

    def start_again(self, run: Run) -> None:
        again = self.last[run.job.id] = Run(run.job, earlier=(*run.earlier, run), eligible=run.eligible)
        self.queue.append(again)
        self.queue.sort(key=lambda run: (run.eligible, run.job.submit, run.job.id))

    def drain(self, drain: Drain) -> None:
        self.free.discard(drain.node)
        self.down.append(drain.node)
        self.need_pass()
        if drain.end is not None:
            self.later(drain.end - self.env.now, REPAIR, lambda: self.repair(drain.node))

    def coming(self, run: Run) -> int:
        """How many nodes will be free when a run ends."""
        return len(run.held - set(self.down))

    # Passes

    def need_pass(self) -> None:
        now = self.env.now
        due = {self.next_multiple(self.rules.pass_interval)}
        if not self.rules.pass_interval:
            due.add(self.next_multiple(self.rules.backfill_interval))
        for time in due - self.passes_due:
            self.later(time - now, PASS, self.make_pass)
        self.passes_due |= due

    def next_multiple(self, interval: float) -> Fraction:
        now = self.env.now
        return ceil(now / Fraction(interval)) * Fraction(interval) if interval else now

    def make_pass(self) -> None:
        self.passes_due.discard(self.env.now)
        if self.rules.short_first:
            self.start_short_jobs()
        self.released.clear()
        while self.queue and (nodes := self.nodes_for(self.queue[0], self.free)):
            self.start(self.queue[0], nodes)
        backfills = self.next_multiple(self.rules.backfill_interval) == self.env.now
        if self.queue and self.rules.easy and backfills:
            for run in self.queue[1:]:
                nodes = self.nodes_for(run, self.free)
                if nodes and self.is_harmless(run, nodes):
                    run.backfilled = True
                    self.start(run, nodes)
        if self.rules.reclaim and not self.queue:
            self.return_nodes()
        self.start_asking()

    def start_short_jobs(self) -> None:
        """Let the shortest jobs start that fit on the nodes that were released since the last pass."""
        while True:
            places = [(run, self.nodes_for(run, self.free & self.released)) for run in self.queue]
            fitting = [(run, nodes) for run, nodes in places if nodes]
            if self.rules.easy:
                fitting = [(run, nodes) for run, nodes in fitting if self.is_harmless(run, nodes)]
            if not fitting:
                return
            run, nodes = min(
                fitting,
                key=lambda pair: (pair[0].job.estimate, pair[0].eligible, pair[0].job.submit, pair[0].job.id),
            )
            run.backfilled = run is not self.queue[0]
            self.start(run, nodes)

    def nodes_for(self, run: Run, free: Iterable[int]) -> list[int]:
        """The first free nodes that a job may use; none if these are too few."""
        nodes = sorted(self.usable(run, free))[: run.job.units]
        return nodes if len(nodes) == run.job.units else []

    def is_harmless(self, run: Run, nodes: list[int]) -> bool:
        """EASY's test: whether the head can start no later than without this job."""
        head = self.queue[0]
        time, free = self.reservation(head)
        in_time = self.env.now + Fraction(run.job.estimate) <= time
        return run is head or in_time or len(self.nodes_for(head, free - set(nodes))) > 0

    def reservation(self, head: Run) -> tuple[Number, set[int]]:
        """When the head can start if running jobs end as expected, and which nodes are free then."""
        now = self.env.now

        def expected(run: Run) -> Fraction:
            end = run.start + Fraction(run.job.estimate)
            return end if end > now or run.start == now else now + 1

        for time in sorted({now, *(expected(run) for run in self.running)}):
            coming = [run.held - set(self.down) for run in self.running if expected(run) <= time]
            free = self.free.union(*coming)
            if self.nodes_for(head, free):
                return time, free
        return FOREVER, set()

    # Requests

    def start_asking(self) -> None:
        if not (self.rules.requests and self.queue and self.asking is None):
            return
        head, now = self.queue[0], self.env.now
        if head.job.id in self.asked_for:
            return
        self.asked_for.add(head.job.id)

        def order(run: Run) -> tuple[Any, ...]:
            shares = self.shares.get(run.job.executable)
            work = self.coming(run) * max(run.start + Fraction(run.job.estimate) - now, Fraction(0))
            return (shares is None, -sum(shares) / len(shares) if shares else 0, work, run.job.id)

        able = [run for run in self.running if self.coming(run) >= 2 and self.usable(head, run.held)]
        self.asking = Asking(head, sorted(able, key=order))
        self.ask_next()

    def ask_next(self) -> None:
        assert self.asking is not None
        head, candidates = self.asking.head, self.asking.candidates
        promised = [node for (_, node), other in self.promised.items() if other is head]
        coming = sum(node not in self.down for node in self.usable(head, promised))
        missing = head.job.units - len(self.usable(head, self.free)) - coming
        if not candidates or head not in self.queue or missing <= 0:
            self.asking = None
            return
        run, deadline = candidates.pop(0), self.reservation(head)[0]
        self.send(
            "release-request",
            run,
            -1,
            lambda: self.reach_application(run, missing, deadline),
            facts=(missing, head.job.id, deadline),
        )

    def reach_application(self, run: Run, asked: int, deadline: Number) -> None:
        nodes, reason = answer(run, self.rules, self.env.now, asked, deadline)
        if nodes:
            facts = (tuple(nodes),)
            self.send("release-accepted", run, -1, lambda: self.hear(run, nodes), facts=facts)
        else:
            self.send("release-rejected", run, -1, lambda: self.hear(run, []), facts=(reason,))

    def hear(self, run: Run, nodes: list[int]) -> None:
        """The answer reaches the batch system."""
        assert self.asking is not None
        for node in nodes:
            if node in run.held:
                self.promised[run.job.id, node] = self.asking.head
            if node in run.yielded:  # it has not just run out of work
                self.claims.setdefault(node, []).append(run)
        self.ask_next()
        self.need_pass()

    # Nodes that come back

    def return_nodes(self) -> None:
        for node in sorted(self.free):
            owners = [run for run in self.claims.get(node, []) if run.state == "running"]
            if owners:
                self.return_node(owners[-1], node)

    def return_node(self, run: Run, node: int) -> None:
        self.claims[node].remove(run)
        self.free.remove(node)
        run.held.add(node)
        run.stays.append(Stay(node, self.env.now))
        place = run.nodes.index(node)

        def arrive() -> None:
            if run.state == "running" and node in run.held:
                run.yielded.discard(node)
                run.loop.change([place], back=True)

        self.send("node-returned", run, node, arrive)


def simulate(jobs: list[Job], platform: Platform, rules: Rules) -> tuple[list[Run], list[Message]]:
    """Run jobs, and give them in order of submission, and the messages in order of sending."""
    machine = Machine(platform, rules)
    return machine.simulate(jobs), machine.messages
