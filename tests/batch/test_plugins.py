"""Policies, allocators and dispatchers of the user's own: what they see, what they may answer."""

from __future__ import annotations

import itertools
import json
import signal
from importlib.metadata import EntryPoint
from textwrap import dedent

import numpy as np
import pytest

from mlsim.batch import user_dispatch
from mlsim.errors import InputError, StoppedError
from mlsim.record import JobState
from tests.batch.hardware import jobs_with_requests, machine, nodes_of, simulate

HARDWARE = machine((2, 4, 8, {"gpu": 1}), (2, 4, 8, {}))
_files = itertools.count()


@pytest.fixture
def plugin(tmp_path):
    """Write a class into a file; give the name by which a scenario knows it."""

    def write(text: str, name: str = "Mine") -> str:
        file = tmp_path / f"own{next(_files)}.py"
        file.write_text("from mlsim.batch.view import Reject, Start\n" + dedent(text))
        return f"{file}:{name}"

    return write


def three_jobs(**changes):
    columns = {
        "submit": [0.0, 0.0, 0.0],
        "run": [10.0, 5.0, 2.0],
        "estimate": [20.0, 6.0, 3.0],
        "units": [2, 1, 4],
        "requests": [[4, 2, 0], [1, 1, 1], [2, 0, 0]],
    }
    return jobs_with_requests(HARDWARE, *(columns | changes).values())


def test_a_policy_orders_the_queue(plugin):
    name = plugin(
        """
        class Mine:
            def key(self, now, jobs):
                assert not jobs.units.flags.writeable
                return -jobs.estimate * (jobs.submit_time <= now)
        """
    )
    rows = three_jobs(units=[4, 4, 4], requests=[[4, 0, 0]] * 3)
    _, done, _ = simulate(HARDWARE, rows, policy=name)
    assert done.start_time.tolist() == [0.0, 10.0, 15.0]
    _, by_lpf, _ = simulate(HARDWARE, rows, policy="LPF")
    assert by_lpf.start_time.tolist() == done.start_time.tolist()


def test_a_policy_that_is_not_live_is_asked_once_a_job(plugin):
    name = plugin(
        """
        class Mine:
            live = False
            def __init__(self):
                self.seen = set()
            def key(self, now, jobs):
                assert not self.seen & set(jobs.number.tolist())
                self.seen |= set(jobs.number.tolist())
                return jobs.estimate
        """
    )
    rows = three_jobs(submit=[0.0, 1.0, 2.0], units=[4, 4, 4], requests=[[4, 0, 0]] * 3)
    _, done, _ = simulate(HARDWARE, rows, policy=name)
    assert done.start_time.tolist() == [0.0, 12.0, 10.0]


def test_the_threshold_goes_before_a_policy_of_ones_own(plugin):
    name = plugin("class Mine:\n    def key(self, now, jobs):\n        return jobs.estimate\n")
    rows = three_jobs(submit=[0.0, 1.0, 2.0], units=[4, 4, 4], requests=[[4, 0, 0]] * 3)
    _, done, _ = simulate(HARDWARE, rows, policy=name, threshold=8.5)
    assert done.start_time.tolist() == [0.0, 10.0, 15.0]


ALLOCATOR = """
class Mine:
    def allocate(self, units, request, free, capacity):
        asked = request > 0
        room = (free[:, asked] // request[asked]).min(axis=1)
        nodes = [n for n in reversed(range(len(free))) for _ in range(room[n])][:units]
        return nodes if len(nodes) == units else None
"""


@pytest.mark.parametrize("backfill", ["none", "greedy", "easy", "conservative"])
def test_an_allocator_chooses_nodes_under_every_backfilling(plugin, backfill):
    rows = three_jobs()
    _, done, occupancy = simulate(HARDWARE, rows, allocator=plugin(ALLOCATOR), backfill=backfill)
    assert done.start_time.tolist() == [0.0, 0.0, 5.0]
    assert nodes_of(occupancy, 0, 4) == [2, 3]
    assert nodes_of(occupancy, 1, 1) == [1]


def test_a_dispatcher_sees_everything_and_decides(plugin):
    name = plugin(
        """
        class Mine:
            def dispatch(self, view):
                assert view.resources == ("cores", "memory", "gpu")
                assert view.capacity.tolist() == [[4, 8, 1]] * 2 + [[4, 8, 0]] * 2
                assert not view.exclusive
                for table in (view, view.waiting, view.running):
                    for name in table.__slots__:
                        array = getattr(table, name)
                        assert not hasattr(array, "flags") or not array.flags.writeable
                if view.now == 0:
                    assert view.waiting.job_id.tolist() == [1, 2, 3]
                    assert view.waiting.request.tolist() == [[4, 2, 0], [1, 1, 1], [2, 0, 0]]
                    yield Start(1, nodes=[1])
                    yield Start(0, nodes=[0, 3])
                    yield Reject(2, "not today")
                assert view.now == 0, "nobody waits any more"
        """
    )
    system, done, occupancy = simulate(HARDWARE, three_jobs(), dispatcher=name)
    assert done.start_time[:2].tolist() == [0.0, 0.0]
    assert nodes_of(occupancy, 0, 4) == [0, 3]
    assert nodes_of(occupancy, 1, 1) == [1]
    assert done.state.tolist() == [JobState.COMPLETED, JobState.COMPLETED, JobState.REJECTED]
    assert system.rejections().reasons == ("not today",)
    assert system.rejections().job.tolist() == [2]


def test_a_view_tells_who_holds_what_and_until_when(plugin, tmp_path):
    name = plugin(
        f"""
        import json, pathlib
        class Mine:
            def dispatch(self, view):
                if view.now == 0:
                    return [Start(0, nodes=[3, 0]), Start(1)]
                running = view.running
                seen = [running.number, running.expected_end, running.units, running.request,
                        running.held_job, running.held_node, running.held_units, view.free]
                pathlib.Path({str(tmp_path / "seen")!r}).write_text(json.dumps([a.tolist() for a in seen]))
                return [Start(0)]
        """
    )
    rows = three_jobs(submit=[0.0, 0.0, 4.0], units=[2, 1, 3])
    _, done, _ = simulate(HARDWARE, rows, dispatcher=name, on_overrun="extend")

    assert json.loads((tmp_path / "seen").read_text()) == [
        [0, 1],
        [20.0, 6.0],
        [2, 1],
        [[4, 2, 0], [1, 1, 1]],
        [0, 0, 1],
        [0, 3, 1],
        [1, 1, 1],
        [[0, 6, 1], [3, 7, 0], [4, 8, 0], [0, 6, 0]],
    ]
    assert done.start_time.tolist() == [0.0, 0.0, 4.0]


def dispatching(answers: str) -> str:
    return f"""
    class Mine:
        def dispatch(self, view):
            return {answers} if view.now == 0 else [Start(job) for job in range(len(view.waiting))]
    """


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ("[Start(0), Start(0)]", "job 1 at 0 s: is named twice in one pass"),
        ("[Start(0), Reject(0, '')]", "job 1 at 0 s: is named twice in one pass"),
        ("[Start(3)]", "names row 3 at 0 s; allowed: rows of view.waiting, 0 to 2"),
        ("[Start(-1)]", "names row -1 at 0 s"),
        ("[Start(True and 0.5)]", "names row 0.5 at 0 s"),
        (
            "[Start(0, nodes=[0, 0])]",
            "job 1 at 0 s: 2 of its units do not fit on node 0, there is room for 1",
        ),
        ("[Start(1, nodes=[2])]", "job 2 at 0 s: 1 of its units do not fit on node 2, there is room for 0"),
        ("[Start(0, nodes=[0])]", r"job 1 at 0 s: nodes are \[0\]; allowed: 2 whole numbers, one a unit"),
        ("[Start(0, nodes=[0, 4])]", "job 1 at 0 s: there is no node 4; allowed: 0 to 3"),
        ("[Start(0, nodes=7)]", "job 1 at 0 s: nodes are 7; allowed: the node of each unit"),
        ("[Start(2, nodes=[0, 0, 1, 1]), Start(0)]", None),
        (
            "[Start(2), Start(0, nodes=[2, 3]), Start(1, nodes=[0])]",
            "job 2 at 0 s: 1 of its units do not fit",
        ),
        ("[7]", r"gives 7 at 0 s; allowed: Start\(row\) and Reject\(row, reason\)"),
        ("None", "gives None at 0 s; allowed: Start and Reject"),
        ("[1 // 0]", "failed at 0 s: ZeroDivisionError"),
    ],
)
def test_wrong_answers_of_a_dispatcher_are_told_with_job_and_time(plugin, answers, told):
    name = plugin(dispatching(answers))
    if told is None:
        assert simulate(HARDWARE, three_jobs(), dispatcher=name)[1].start_time[0] == 0.0
        return
    with pytest.raises(InputError, match=told) as caught:
        simulate(HARDWARE, three_jobs(), dispatcher=name)
    assert str(caught.value).startswith(f"dispatcher {name}: ")
    assert caught.value.exit_code == 2


def test_a_start_without_room_is_told(plugin):
    rows = three_jobs(units=[4, 1, 4], requests=[[4, 2, 0], [1, 1, 1], [2, 0, 0]])
    with pytest.raises(InputError, match="job 2 at 0 s: does not fit on what is free"):
        simulate(HARDWARE, rows, dispatcher=plugin(dispatching("[Start(0), Start(1)]")))


def test_a_unit_takes_a_whole_node(plugin):
    name = plugin(dispatching("[Start(0, nodes=[1, 1])]"))
    rows = three_jobs(requests=[[1, 0, 0]] * 3)
    with pytest.raises(InputError, match="2 of its units do not fit on node 1, there is room for 1"):
        simulate(HARDWARE, rows, dispatcher=name, exclusive=True)
    allocator = plugin("class Mine:\n    def allocate(self, units, *rest):\n        return [0] * units\n")
    with pytest.raises(InputError, match="job 1 at 0 s: 2 units do not fit on node 0"):
        simulate(HARDWARE, rows, allocator=allocator, exclusive=True)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("[0] * units", "job 1 at 0 s: 2 units do not fit on node 0"),
        ("[9] * units", "job 1 at 0 s: there is no node 9"),
        ("[0]", r"job 1 at 0 s: nodes are \[0\]; allowed: 2 whole numbers"),
        ("1 / 0", "job 1 at 0 s: failed at 0 s: ZeroDivisionError"),
    ],
)
def test_wrong_answers_of_an_allocator_are_told(plugin, answer, told):
    name = plugin(
        f"class Mine:\n    def allocate(self, units, request, free, capacity):\n        return {answer}\n"
    )
    with pytest.raises(InputError, match=f"allocator .*: {told}"):
        simulate(HARDWARE, three_jobs(), allocator=name)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("[1.0]", r"key gives an array of shape \(1,\) at 0 s; allowed: \(3,\)"),
        ("jobs.estimate * float('nan')", "the key of job 1 at 0 s is NaN"),
        ("['a'] * 3", "key gives .* allowed: numbers"),
        ("nowhere", "failed at 0 s: NameError"),
    ],
)
def test_wrong_keys_are_told(plugin, answer, told):
    name = plugin(f"class Mine:\n    def key(self, now, jobs):\n        return {answer}\n")
    with pytest.raises(InputError, match=f"policy .*: {told}"):
        simulate(HARDWARE, three_jobs(), policy=name)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nowhere_to_be_found", "the file cannot be executed: ModuleNotFoundError"),
        ("class Other:\n    pass", "there is no class 'Mine'; the file has: Other"),
        ("class Mine:\n    pass", "has no method dispatch"),
        ("class Mine:\n    def __init__(self, size):\n        pass", "cannot be made: TypeError"),
    ],
)
def test_unusable_files_are_told(plugin, text, told):
    with pytest.raises(InputError, match=told):
        simulate(HARDWARE, three_jobs(), dispatcher=plugin(text))


def test_dataclasses_work_in_files(plugin):
    text = """
    from __future__ import annotations
    from dataclasses import dataclass, field
    @dataclass
    class Mine:
        count: int = 0
        def dispatch(self, view):
            self.count += 1
            return [Start(job) for job in range(len(view.waiting))] if self.count == 1 else []
    """
    name = plugin(text)
    file = name.rsplit(":", 1)[0]
    with open(file) as stream:
        lines = stream.read().splitlines()
    with open(file, "w") as stream:
        stream.write("from __future__ import annotations\n")
        stream.write("\n".join(line for line in lines if "__future__" not in line))
    rows = three_jobs(units=[1, 1, 1])
    assert simulate(HARDWARE, rows, dispatcher=name)[1].start_time.tolist() == [0.0] * 3


def points(*found: tuple[str, str]):
    return lambda group, name=None: [
        EntryPoint(each, value, group) for each, value in found if name in (None, each)
    ]


def test_entry_points(monkeypatch):
    found = points(
        ("mine", "tests.batch.test_plugins:Shortest"),
        ("broken", "tests.nowhere:Mine"),
        ("twice", "tests.batch.test_plugins:Shortest"),
        ("twice", "tests.batch.hardware:Other"),
        ("SAF", "tests.batch.test_plugins:Shortest"),
    )
    monkeypatch.setattr("mlsim.plugins.entry_points", found)
    trouble = {name: why for name, _, why in user_dispatch.installed("policy")}
    assert trouble["mine"] == ""
    assert trouble["broken"].startswith("cannot be imported: ModuleNotFoundError")
    assert trouble["twice"].startswith("its name is there 2 times")
    assert trouble["SAF"] == "its name is one of mlsim's own"
    assert isinstance(user_dispatch.make_plugin("policy", "mine"), Shortest)
    for name in ("broken", "twice", "SAF"):
        with pytest.raises(InputError, match=f"policy {name}: "):
            user_dispatch.make_plugin("policy", name)


class Shortest:
    """A policy that an installed package could offer."""

    def key(self, now, jobs):
        return jobs.estimate


def test_reject_turns_every_job_away():
    system, done, occupancy = simulate(HARDWARE, three_jobs(submit=[0.0, 1.0, 1.0]), dispatcher="reject")
    assert (done.state == JobState.REJECTED).all()
    assert len(occupancy.job) == 0
    assert system.rejections().reasons == ("the dispatcher rejects every job",)


def test_prb_is_the_largest_expansion_factor_first_on_past_what_does_not_fit():
    rows = three_jobs(submit=[0.0, 0.5, 1.0])
    _, prb, prb_held = simulate(HARDWARE, rows, dispatcher="prb")
    _, same, held = simulate(HARDWARE, rows, policy="LEXP", backfill="greedy", allocator="best-fit")
    np.testing.assert_array_equal(prb.start_time, same.start_time)
    np.testing.assert_array_equal(prb_held.node, held.node)


@pytest.mark.parametrize("family", ["dispatcher", "policy", "allocator"])
def test_lists_show_what_is_installed_and_why_it_cannot_be_used(monkeypatch, capsys, family):
    from mlsim.cli.listing import list_

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(
        "mlsim.plugins.entry_points",
        points(("mine", "tests.batch.test_plugins:Shortest"), ("broken", "tests.nowhere:Mine")),
    )
    list_("policies" if family == "policy" else f"{family}s")
    shown = capsys.readouterr().out
    assert "installed: tests.batch.test_plugins:Shortest" in shown
    assert "CANNOT BE USED: cannot be imported: ModuleNotFoundError" in shown
    assert "./file.py:Class" in shown


def test_kernels_know_each_entry_by_a_code_of_its_own():
    from mlsim.batch.allocators.node_arrays import CODES, OWN
    from mlsim.scenario.words import Technique
    from mlsim.techniques import TECHNIQUES
    from mlsim.techniques.rule_layout import OF_USER

    assert set(TECHNIQUES) == set(Technique)
    for codes in ([*(entry.code for entry in TECHNIQUES.values()), *OF_USER], [*CODES.values(), OWN]):
        assert len(codes) == len(set(codes))


@pytest.mark.parametrize("execute", [False, True])
def test_check_looks_for_the_plugins(plugin, tmp_path, execute):
    from mlsim.cosim.simulation import survey
    from mlsim.scenario import from_mapping

    name = plugin("class Mine:\n    def key(self, now, jobs):\n        return jobs.estimate\n")
    (tmp_path / "jobs.csv").write_text("job_id,submit_time,run_time,walltime,processors\n1,0,5,9,8\n")
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 2, "cores": 8}]},
        "workload": {"path": "jobs.csv", "mapping": "core"},
        "batch": {"policy": "./" + name.rsplit("/", 1)[1]},
    }
    assert survey(from_mapping(scenario, directory=tmp_path), execute).jobs == 1
    scenario["batch"] = {"policy": scenario["batch"]["policy"].replace("Mine", "Yours")}
    with pytest.raises(InputError, match="there is no class 'Yours'; the file has: Mine"):
        survey(from_mapping(scenario, directory=tmp_path), execute)


ENDINGS = {"exit": "__import__('sys').exit(0)", "interrupt": "exec('raise KeyboardInterrupt')"}
ASKED = {
    "policy": "class Mine:\n    def key(self, now, jobs):\n        {}\n",
    "allocator": "class Mine:\n    def allocate(self, units, request, free, capacity):\n        {}\n",
    "dispatcher": "class Mine:\n    def dispatch(self, view):\n        {}\n",
    "predictor": "class Mine:\n    def predict(self, job):\n        {}\n    def learn(self, job, run_time):\n"
    "        pass\n",
}


@pytest.fixture
def of_command():
    """Handle Ctrl-C as a command does: by an exception of its own."""

    def stop(number: int, _frame: object) -> None:
        raise StoppedError(number)

    before = signal.signal(signal.SIGINT, stop)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("family", ASKED)
def test_a_plugin_cannot_end_the_simulation(plugin, of_command, family, ending):
    kind = {"exit": "SystemExit", "interrupt": "KeyboardInterrupt"}[ending]
    name = plugin(ASKED[family].format(ENDINGS[ending]))
    with pytest.raises(InputError, match=rf"^{family} {name}: .* at 0 s: {kind}"):
        simulate(HARDWARE, three_jobs(), **{family: name})


MINE = "class Mine:\n "
NO = "class No:\n def __str__(self): {}\n __bool__ = __str__\n"


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("policy", "{}\n"),
        ("policy", MINE + "def __init__(self): {}\n"),
        ("policy", MINE + "key = property(lambda self: {})\n"),
        ("policy", MINE + "live = property(lambda self: {})\n def key(self, now, jobs): pass\n"),
        ("policy", MINE + "def key(self, now, jobs): return self\n def __array__(self, *_, **__): {}\n"),
        ("allocator", MINE + "def allocate(self, *_): return ({} for _ in range(3))\n"),
        ("dispatcher", MINE + "def dispatch(self, view): yield {}\n"),
        ("dispatcher", MINE + "def dispatch(self, view): return self\n def __iter__(self): {}\n"),
        ("dispatcher", NO + MINE + "def dispatch(self, view): return [Reject(0, No())]\n"),
        ("dispatcher", NO + MINE + "def dispatch(self, view): return [Start(0, None, No())]\n"),
    ],
)
def test_nor_can_anything_else_that_belongs_to_a_plugin(plugin, of_command, family, text):
    name = plugin(text.replace("{}", ENDINGS["exit"]))
    with pytest.raises(InputError, match=rf"^{family} {name}: .*SystemExit: 0"):
        simulate(HARDWARE, three_jobs(), **{family: name})


@pytest.mark.parametrize("family", ASKED)
def test_a_signal_within_a_plugin_stops_the_simulation(plugin, of_command, family):
    ask = "import os, signal; os.kill(os.getpid(), signal.SIGINT); sum(range(1000))"
    with pytest.raises(StoppedError):
        simulate(HARDWARE, three_jobs(), **{family: plugin(ASKED[family].format(ask))})


@pytest.mark.parametrize(
    ("handler", "raised"), [(signal.default_int_handler, KeyboardInterrupt), (signal.SIG_IGN, InputError)]
)
def test_ctrl_c_in_a_program_that_uses_the_library_is_the_users(plugin, handler, raised):
    """Where the program ignores Ctrl-C, as one in the background does, only the plugin can have raised it."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(raised):
            simulate(HARDWARE, three_jobs(), policy=plugin(ASKED["policy"].format("raise KeyboardInterrupt")))
    finally:
        signal.signal(signal.SIGINT, before)


COUNTING = """
    class Data:
        def __init__(self):
            self.calls = 0

        def update(self, view):
            self.calls += 1
            assert not view.data
            return {"calls": self.calls, "now": view.now, "free": int(view.free[0, 0])}
    """


def test_data_reach_the_dispatcher_at_every_pass(plugin):
    """Once per pass in which jobs wait, with the state before the pass."""
    data = plugin(COUNTING, "Data")
    name = plugin(
        """
        class Mine:
            calls = 0

            def dispatch(self, view):
                self.calls += 1
                free = int(view.free[0, 0])
                assert dict(view.data) == {"calls": self.calls, "now": view.now, "free": free}
                try:
                    view.data["calls"] = 0
                except TypeError:
                    yield Start(0)
        """
    )
    _, done, _ = simulate(
        HARDWARE, three_jobs(units=[4, 4, 4], requests=[[4, 0, 0]] * 3), dispatcher=name, data=data
    )
    assert done.start_time.tolist() == [0.0, 10.0, 15.0]


def test_data_order_the_queue_of_a_policy(plugin):
    """Before 9 s the longest job is first, later the shortest: jobs of 10, 2 and 5 s, one at a time."""
    data = plugin(
        """
        class Data:
            def update(self, view):
                return {"sign": -1.0 if view.now < 9.0 else 1.0}
        """,
        "Data",
    )
    name = plugin(
        """
        class Mine:
            def key(self, now, jobs):
                return jobs.data["sign"] * jobs.estimate
        """
    )
    rows = three_jobs(units=[4, 4, 4], requests=[[4, 0, 0]] * 3)
    _, done, _ = simulate(HARDWARE, rows, policy=name, data=data)
    assert done.start_time.tolist() == [0.0, 12.0, 10.0]


@pytest.mark.parametrize("kind", ["dispatcher", "policy"])
def test_data_have_a_pass_when_they_change(plugin, kind):
    """The price falls at 7.5 s, when nothing else happens; a job waits for that."""
    data = plugin(
        """
        class Data:
            def update(self, view):
                return {"price": 3 if view.now < 7.5 else 1}

            def next_update(self, now):
                return 7.5 if now < 7.5 else None
        """,
        "Data",
    )
    code = {
        "dispatcher": """
            class Mine:
                def dispatch(self, view):
                    return [Start(k) for k in range(len(view.waiting)) if view.data["price"] == 1]
            """,
        "policy": """
            class Mine:
                seen = []

                def key(self, now, jobs):
                    self.seen.append((now, jobs.data["price"]))
                    if now > 7.5:
                        assert (7.5, 1) in self.seen
                    return jobs.estimate
            """,
    }
    columns = {"run": [10.0, 10.0, 2.0], "estimate": [20.0, 12.0, 3.0]}
    rows = three_jobs(**columns, units=[4, 4, 4], requests=[[4, 0, 0]] * 3)
    if kind == "dispatcher":
        rows = three_jobs(units=[1, 1, 1], requests=[[1, 0, 0]] * 3)
    _, done, _ = simulate(HARDWARE, rows, data=data, **{kind: plugin(code[kind])})
    starts = done.start_time.tolist()
    assert starts == ([7.5] * 3 if kind == "dispatcher" else [12.0, 2.0, 0.0])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("def update(self, view): return 3", "update gives 3 at 0 s; allowed: a mapping by name"),
        ("def update(self, view): return 1 / 0", "failed at 0 s"),
        ("def refresh(self, view): return {}", "has no method update"),
        (
            "next_update = lambda self, now: now\n            def update(self, view): return {}",
            "wants to be woken at 0.0 at 0 s; allowed: seconds, more than now",
        ),
    ],
)
def test_wrong_data_end_the_run_with_their_name(plugin, body, problem):
    data = plugin(f"class Data:\n            {body}\n", "Data")
    name = plugin("class Mine:\n            def dispatch(self, view): return []\n")
    with pytest.raises(InputError, match=rf"data .*:Data: .*{problem}"):
        simulate(HARDWARE, three_jobs(), dispatcher=name, data=data)


def test_data_that_only_ask_for_passes_end_the_run(plugin, monkeypatch):
    monkeypatch.setattr("mlsim.batch.state.node_passes._MOST_IDLE_WAKES", 50)
    data = plugin(
        """
        class Data:
            def update(self, view): return {}
            def next_update(self, now): return now + 1.0
        """,
        "Data",
    )
    name = plugin("class Mine:\n            def dispatch(self, view): return []\n")
    with pytest.raises(InputError, match="asked to be woken 50 times in a row"):
        simulate(HARDWARE, three_jobs(), dispatcher=name, data=data)
