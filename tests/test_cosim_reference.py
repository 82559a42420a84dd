"""Whole runs against the slow co-simulation, in which nothing is forecast."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.reference.cosim_data import Drain, Failure, Platform, Rules
from tests.reference.cosim_scenarios import Row, Study, by_reference, by_simulator, differences

REQUESTS = True  # whether the simulator knows requests for nodes, their return, and node failures
TECHNIQUES = ["STATIC", "SS", "GSS", "TSS", "FAC2", "AF"]

needs_requests = pytest.mark.skipif(not REQUESTS, reason="the simulator has no requests")


@st.composite
def dependent(draw: st.DrawFn, independent: st.SearchStrategy[Study]) -> Study:
    """Let some jobs wait for others, earlier or later in the log, without circles."""
    study = draw(independent)
    rank = draw(st.permutations(range(1, len(study.rows) + 1)))  # a job waits for those before it only
    rows = list(study.rows)
    for place in range(1, len(rank)):
        chosen = draw(st.lists(st.sampled_from(rank[:place]), max_size=2, unique=True))
        after = tuple((job, draw(st.booleans()), draw(quarters(0, 4))) for job in chosen)
        rows[rank[place] - 1] = rows[rank[place] - 1]._replace(after=after)
    return replace(study, rows=tuple(rows))


@st.composite
def on_sets(draw: st.DrawFn, anywhere: st.SearchStrategy[Study]) -> Study:
    """Let some jobs use only some of the nodes."""
    study = draw(anywhere)
    nodes = range(len(study.platform.cores))
    some = st.frozensets(st.sampled_from(nodes), min_size=1)
    rows = tuple(row._replace(may_use=draw(st.one_of(st.none(), some, some))) for row in study.rows)
    return replace(study, rows=rows)


def quarters(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(low, high).map(lambda k: k / 4)


@st.composite
def costs(draw: st.DrawFn) -> tuple[float, ...]:
    """Whole numbers that sum up to a power of two, so that any scale by one is exact."""
    numbers = draw(st.lists(st.integers(1, 6), min_size=1, max_size=14))
    rest = (1 << (sum(numbers) - 1).bit_length()) - sum(numbers)
    return tuple(float(number) for number in numbers + ([rest] if rest else []))


def rows(nodes: int) -> st.SearchStrategy[tuple[Row, ...]]:
    job = st.tuples(
        st.one_of(st.just(0.0), quarters(0, 24)),
        st.sampled_from([1.0, 2.0, 4.0, 6.0, 8.0]),
        st.sampled_from([0.5, 1.0, 1.25, 1.5, 2.0, 4.0]),
        st.one_of(st.integers(1, nodes), st.integers(1, nodes + 1)),
        st.sampled_from([-1, 1, 2]),
    )
    return st.lists(job, min_size=1, max_size=7).map(
        lambda jobs: tuple(Row(submit, run, run * factor, *others) for submit, run, factor, *others in jobs)
    )


@st.composite
def studies(draw: st.DrawFn, requests: bool = False, failures: bool = False) -> Study:
    nodes, cores = draw(st.integers(2, 5)), draw(st.sampled_from([1, 1, 2]))
    some = st.sampled_from([0.0, 0.125, 0.25])
    loop = {
        "technique": draw(st.sampled_from(TECHNIQUES)),
        "min_chunk": draw(st.sampled_from([1, 1, 2])),
        **{key: draw(some) for key in ("calculation", "assignment", "atomic", "delay")},
    }
    platform = Platform(
        cores=(cores,) * nodes,
        speed=tuple(draw(st.sampled_from([1.0, 1.0, 2.0, 0.5])) for _ in range(nodes)),
        between=draw(st.sampled_from([0.125, 0.5] if requests else [0.0, 0.125, 0.5])),
        within=draw(st.sampled_from([0.0, 0.0625])),
    )
    easy = draw(st.booleans())
    rules = Rules(
        loop=loop,
        model=draw(st.sampled_from(["dca", "dca", "cca"])),
        easy=easy,
        kill=draw(st.booleans()),
        rca=requests or draw(st.booleans()),
        latency=draw(st.sampled_from([0.0, 0.125, 0.25, 1.0][1 if requests else 0 :])),
        **_requests(draw, requests),
        **_intervals(draw, easy),
        **_outages(draw, nodes, failures),
    )
    return Study(draw(rows(nodes)), draw(costs()), platform, rules)


@st.composite
def lending_studies(draw: st.DrawFn, failures: bool = False) -> Study:
    """Long jobs on the whole machine, and short ones that ask for a node now and then."""
    study = draw(studies(requests=True, failures=failures))
    nodes = len(study.platform.cores)
    numbers = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, 3.0]), min_size=16, max_size=40))
    costs = (*numbers, 128.0 - sum(numbers)) if draw(st.booleans()) else (1.0,) * 32
    long = [
        (0.0, run, 4 * run, nodes, 1)
        for run in draw(st.lists(st.sampled_from([8.0, 16.0]), min_size=1, max_size=2))
    ]
    short = st.tuples(
        quarters(2, 48), st.sampled_from([0.5, 1.0]), st.just(4.0), st.integers(1, 2), st.just(2)
    )
    rows = long + draw(st.lists(short, min_size=1, max_size=4))
    rules = replace(
        study.rules, requests=True, reclaim=True, answer=draw(st.sampled_from(["always", "tolerance"]))
    )
    return replace(study, rows=tuple(Row(*row) for row in rows), costs=costs, rules=rules)


@st.composite
def two_level(draw: st.DrawFn, one_level: st.SearchStrategy[Study], model: str) -> Study:
    """The same under a model of two levels, and on nodes of more cores."""
    study = draw(one_level)
    outside = study.rules.loop["technique"]
    inside = draw(st.sampled_from(["STATIC", "SS", "GSS"] if model == "mpi+openmp" else TECHNIQUES))
    may_not_wait = model == "mpi+openmp" and (outside, inside) != ("AF", "STATIC")
    loop = {
        **study.rules.loop,
        "technique": f"{outside}+{inside}",
        "break_after": draw(st.sampled_from([1, 2, 50])),
        "break_time": draw(st.sampled_from([0.0, 0.25])),
        "service_order": draw(st.sampled_from(["fifo", "lowest-rank"])),
        "nowait": may_not_wait and draw(st.booleans()),
    }
    platform = study.platform
    cores = draw(st.sampled_from([1, 2, 2, 4]))
    # A master that asks and is answered at one moment could look again at that moment, and again.
    between = platform.between or 0.125
    return replace(
        study,
        platform=replace(platform, cores=(cores,) * len(platform.cores), between=between),
        rules=replace(study.rules, model=model, loop=loop),
    )


def _intervals(draw: st.DrawFn, easy: bool) -> dict[str, float]:
    interval = draw(st.sampled_from([0.0, 0.0, 0.0, 0.75, 1.0]))
    return {"backfill_interval" if easy and draw(st.booleans()) else "pass_interval": interval}


def _requests(draw: st.DrawFn, wanted: bool) -> dict[str, object]:
    if not wanted:
        return {}
    return {
        "requests": draw(st.sampled_from([True, True, True, False])),
        "answer": draw(st.sampled_from(["always", "always", "tolerance", "idle-only", "never"])),
        "tolerance": draw(st.sampled_from([0.0, 0.25, 1.0])),
        "reclaim": draw(st.booleans()),
        "short_first": draw(st.booleans()),
    }


def _outages(draw: st.DrawFn, nodes: int, wanted: bool) -> dict[str, object]:
    if not wanted:
        return {}
    drain = st.builds(
        lambda node, start, length: Drain(node, start, None if length is None else start + length),
        st.integers(0, nodes - 1),
        quarters(0, 40),
        st.one_of(st.none(), quarters(1, 20), quarters(1, 20)),
    )
    return {
        "failures": _failures(draw, nodes),
        "drains": tuple(draw(st.lists(drain, max_size=2))),
        "restart": draw(st.booleans()),
        "max_restarts": draw(st.sampled_from([0, 1, 5])),
    }


def _failures(draw: st.DrawFn, nodes: int) -> tuple[Failure, ...]:
    failure = st.builds(
        Failure,
        st.integers(0, nodes - 1),
        quarters(0, 60),
        st.one_of(st.none(), quarters(1, 20), quarters(1, 20)),
    )
    return tuple(draw(st.lists(failure, min_size=1, max_size=3)))


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


def assert_same(study: Study, workplace) -> None:
    lines = differences(by_reference(study), by_simulator(study, workplace))
    assert not lines, "\n".join([str(study), *lines])


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(100))
@given(studies())
def test_releases_and_kills(workplace, study):
    assert_same(study, workplace)


def cyclic(study: Study) -> Study:
    """The same with CYCLIC, inside nodes too."""
    outside, plus, _ = study.rules.loop["technique"].partition("+")
    technique = f"{outside}+CYCLIC" if plus else "CYCLIC"
    loop = {**study.rules.loop, "technique": technique}
    if outside == "AF" and plus:
        loop["nowait"] = False
    return replace(study, rules=replace(study.rules, loop=loop))


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(100))
@given(
    st.one_of(
        studies(),
        studies(failures=True),
        studies(requests=True),
        lending_studies(),
        lending_studies(failures=True),
        two_level(studies(requests=True), "mpi+openmp"),
        two_level(lending_studies(), "mpi+openmp"),
    ).map(cyclic)
)
def test_cyclic_scheduling(workplace, study):
    """Nodes that are to leave, fail or come back while PEs have chunks that no other PE executes."""
    assert_same(study, workplace)


def small(rows: list[tuple[float, ...]], costs: tuple[float, ...], nodes: int, **rules: object) -> Study:
    loop = {"technique": rules.pop("technique", "STATIC")}
    platform = Platform((1,) * nodes, (1.0,) * nodes, rules.pop("between", 0.0))
    return Study(tuple(Row(*row) for row in rows), costs, platform, Rules(loop, rca=True, **rules))


COINCIDENCES = {
    "a job is killed as the request reaches it": small(
        [(0, 8, 0.5, 2), (0.25, 1, 1, 1)],
        costs=(1.0, 1.0),
        nodes=2,
        kill=True,
        latency=0.25,
        requests=True,
        answer="never",
    ),
    "an answer arrives as nodes come free": small(
        [(0, 8, 0.5, 2), (0, 8, 0.5, 2), (0, 1, 1, 1)],
        costs=(1.0, 1.0),
        nodes=4,
        kill=True,
        latency=0.25,
        requests=True,
        answer="never",
    ),
    "an executable that is not known has no history": small(
        [(0, 1, 1, 1, -1), (0, 4, 4, 2, 1), (0, 4, 8, 2, -1), (2, 1, 1, 2, 1)],
        costs=(1.0, 1.0),
        nodes=5,
        latency=0.25,
        requests=True,
        answer="never",
    ),
    "short jobs start on the nodes that were released": small(
        [(0, 1, 9, 1), (0, 2, 9, 2), (0.5, 1, 1, 1), (0.5, 2, 2, 1)],
        costs=(3.0, 1.0),
        nodes=3,
        short_first=True,
    ),
    "a second request to a job that is about to leave a node": small(
        [(0, 16, 64, 3), (0, 1, 4, 1), (0.5, 8, 8, 1), (1.25, 8, 8, 1)],
        costs=(1.0,) * 16,
        nodes=4,
        technique="SS",
        between=0.125,
        latency=0.25,
        requests=True,
        answer="always",
    ),
    "a node whose message is on its way": small(
        [(0, 2, 64, 2), (0, 4, 64, 2), (0.75, 8, 8, 1)],
        costs=(3.0, 1.0),
        nodes=4,
        latency=0.5,
        requests=True,
        answer="idle-only",
    ),
    "who got a node has given it up as well": small(
        [(0, 8, 32, 3, 1), (0.5, 0.5, 4, 2, 2), (0.5, 0.5, 4, 1, 2)],
        costs=(1.0,) * 32,
        nodes=3,
        technique="SS",
        between=0.125,
        latency=0.125,
        requests=True,
        answer="always",
        reclaim=True,
    ),
}

COINCIDENCES["nodes that would be idle at one time, one of which had been given up before"] = Study(
    rows=(Row(0, 8, 32, 5, 1), Row(0.5, 0.5, 4, 1, 2), Row(3.5, 0.5, 4, 1, 2)),
    costs=(2.0, *[1.0] * 23, 103.0),
    platform=Platform((1,) * 5, (1.0, 1.0, 1.0, 2.0, 1.0), between=0.125),
    rules=Rules(
        {"technique": "AF", "calculation": 0.125, "assignment": 0.125},
        rca=True,
        latency=0.125,
        requests=True,
        answer="always",
        reclaim=True,
    ),
)

COINCIDENCES["a node whose message arrives after the end of its job"] = Study(
    rows=(Row(0, 1, 0.5, 1), Row(0, 1, 0.5, 4), Row(4, 1, 0.5, 1)),
    costs=(1.0, 2.0, 1.0),
    platform=Platform((1,) * 4, (0.5, 1.0, 1.0, 1.0), between=0.125),
    rules=Rules(
        {"technique": "STATIC", "delay": 0.25}, rca=True, latency=1.0, requests=True, answer="idle-only"
    ),
)

COINCIDENCES["a job is killed as the message of a node it has promised arrives"] = Study(
    rows=(Row(0, 1, 0.5, 2), Row(0, 8, 4, 2), Row(0, 2, 2, 1), Row(0, 1, 0.5, 2)),
    costs=(1.0,),
    platform=Platform((2,) * 4, (1.0,) * 4, between=0.5),
    rules=Rules(
        {"technique": "STATIC", "assignment": 0.25, "delay": 0.25},
        kill=True,
        rca=True,
        latency=1.0,
        requests=True,
        answer="idle-only",
    ),
)

COINCIDENCES["a message that would have come after the end, before a returned node made that later"] = Study(
    rows=(Row(0, 8, 32, 5, 1), Row(0.5, 0.5, 4, 1, 2)),
    costs=(1.0,) * 32,
    platform=Platform((1,) * 5, (1.0, 2.0, 2.0, 1.0, 0.5), between=0.125),
    rules=Rules(
        {"technique": "TSS", "calculation": 0.25, "atomic": 0.25, "delay": 0.125},
        rca=True,
        latency=1.0,
        requests=True,
        answer="always",
        reclaim=True,
    ),
)

COINCIDENCES["a node comes back whose PE heard, after it had left, that there was no more work"] = Study(
    rows=(Row(0, 16, 64, 3, 1), Row(3.25, 0.5, 4, 2, 2)),
    costs=(*[1.0] * 8, 3.0, *[1.0] * 7, 110.0),
    platform=Platform((1,) * 3, (1.0, 1.0, 2.0), between=0.5),
    rules=Rules(
        {"technique": "TSS", "atomic": 0.125, "delay": 0.125},
        rca=True,
        latency=0.125,
        requests=True,
        answer="always",
        reclaim=True,
    ),
)


@needs_requests
@pytest.mark.parametrize("what", COINCIDENCES)
def test_coincidences(workplace, what):
    assert_same(COINCIDENCES[what], workplace)


@pytest.mark.slow
@needs_requests
@settings(deadline=None, max_examples=examples(100))
@given(studies(requests=True))
def test_requests(workplace, study):
    assert_same(study, workplace)


@settings(deadline=None, max_examples=examples(50))
@given(studies(), st.booleans())
def test_short_jobs_first(workplace, study, waits):
    rules = replace(study.rules, rca=True, short_first=True, latency=0.125 if waits else 0.0)
    assert_same(replace(study, rules=rules), workplace)


@needs_requests
@settings(deadline=None, max_examples=examples(50))
@given(studies(requests=True))
def test_only_idle_nodes_are_given(workplace, study):
    rules = replace(study.rules, requests=True, answer="idle-only", latency=1.0)
    assert_same(replace(study, rules=rules), workplace)


@pytest.mark.slow
@needs_requests
@settings(deadline=None, max_examples=examples(50))
@given(lending_studies())
def test_nodes_that_come_back(workplace, study):
    assert_same(study, workplace)


@pytest.mark.slow
@needs_requests
@settings(deadline=None, max_examples=examples(50))
@given(lending_studies(failures=True))
def test_failures_while_nodes_are_lent(workplace, study):
    assert_same(study, workplace)


@needs_requests
@settings(deadline=None, max_examples=examples(50))
@given(st.booleans().flatmap(lambda requests: studies(requests=requests, failures=True)))
def test_failures(workplace, study):
    assert_same(study, workplace)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["hmw", "hdca", "mpi+openmp"])
@settings(deadline=None, max_examples=examples(50))
@given(data=st.data())
def test_nodes_of_two_levels(workplace, model, data):
    """Nodes with queues and masters of their own: they give up work, leave, and come back."""
    some = st.one_of(
        lending_studies(),
        lending_studies(failures=True),
        studies(requests=True),
        studies(requests=True, failures=True),
        studies(),
    )
    assert_same(data.draw(two_level(some, model)), workplace)


@settings(deadline=None, max_examples=examples(50))
@given(
    st.one_of(
        dependent(studies()),
        dependent(studies(requests=True)),
        dependent(studies(requests=True, failures=True)),
        dependent(lending_studies()),
    )
)
def test_dependencies(workplace, study):
    """Jobs that wait for others, which give their nodes up early, fail, or are killed."""
    assert_same(study, workplace)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(100))
@given(
    st.one_of(
        on_sets(studies()),
        on_sets(studies(requests=True)),
        on_sets(studies(requests=True, failures=True)),
        on_sets(lending_studies(failures=True)),
        on_sets(dependent(studies(requests=True))),
    ),
    st.booleans(),
)
def test_sets_of_nodes(workplace, study, short_first):
    """Jobs that may use some nodes only, while others release, lend and lose theirs."""
    rules = replace(study.rules, short_first=short_first and study.rules.rca)
    assert_same(replace(study, rules=rules), workplace)


def test_a_node_released_at_the_end_of_its_drain_goes_to_a_short_job(workplace):
    """The node is released while it is drained, and in service when the pass begins."""
    jobs = ((0.0, 8.0, 32.0, 4, 1), (0.0, 8.0, 32.0, 4, 1), (0.5, 0.5, 4.0, 1, 2), (0.5, 0.5, 4.0, 1, 2))
    times = {"calculation": 0.0, "assignment": 0.125, "atomic": 0.25, "delay": 0.25}
    rules = Rules(
        loop={"technique": "TSS", "min_chunk": 1, **times},
        rca=True,
        latency=0.125,
        short_first=True,
        drains=(Drain(2, 0.5, 8.875),),
    )
    platform = Platform((1,) * 4, (1.0,) * 4, between=0.5)
    study = Study(tuple(Row(*job) for job in jobs), (1.0,) * 40 + (88.0,), platform, rules)
    assert by_reference(study).jobs[3][1] == 8.875
    assert_same(study, workplace)
