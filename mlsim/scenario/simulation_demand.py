"""Memory and time of a simulation, estimated before anything is allocated."""

from collections.abc import Iterator
from typing import NamedTuple

from mlsim._files import VARIABLE, memory_limit
from mlsim.errors import InputError
from mlsim.scenario import amount_types, application_section, costs_section, words
from mlsim.scenario.scenario_schema import Scenario

_NODE, _RESOURCES, _GRAPH, _FAILING, _CORE, _PE, _ITERATION = 100, 150, 700, 1400, 8, 350, 16
_PE_HELD = 36
MOST_PES = 4_000_000  # of one loop
_MOST_NODES = 100_000_000
_MOST_FAILURES = 1_000_000_000
_SECONDS_A_FAILURE = 30e-6


class Share(NamedTuple):
    """A part of the memory that something takes."""

    key: str  # of the scenario, or an option
    found: str  # its value, in words
    size: float  # bytes that it takes at least


def check_memory(place: str, shares: list[Share], what: str = "this simulation") -> None:
    """Refuse what needs more memory than there is; the message lists the largest shares first."""
    total, limit = sum(share.size for share in shares), memory_limit()
    if total <= limit:
        return
    shares = sorted(shares, key=lambda share: -share.size)
    lines = [f"  {share.key}: {share.found}: {_gigabytes(share.size)}" for share in shares[:4]]
    first = f"{place}: {what} would take {_gigabytes(total)} of memory or more; there are {_gigabytes(limit)}"
    advice = f"try less of the first, or say with {VARIABLE} how many GB there are"
    raise InputError("\n".join([first, *lines, advice]))


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size < 1e14 else f"{size / 1e9:.1e} GB"


def check_machine(scenario: Scenario) -> None:
    """Refuse a machine, or a loop of this many iterations, that does not fit in memory."""
    nodes = scenario.platform.n_nodes
    if nodes > _MOST_NODES:
        raise InputError(
            f"{scenario.source}: platform.nodes: {nodes:,} nodes in all groups; allowed: {_MOST_NODES:,}"
        )
    if scenario.runs_loops:
        check_pes(f"{scenario.source}: platform.nodes", nodes)
    for of_one in scenario.by_application.values():
        with of_one.own_keys():
            check_memory(scenario.source, [*_machine(scenario), *_counted_loop(of_one)])


def check_pes(place: str, pes: int) -> None:
    """Refuse a loop on more PEs than can be simulated."""
    if pes > MOST_PES:
        size = _gigabytes(pes * (_PE + _NODE))
        raise InputError(
            f"{place}: a loop on {pes:,} PEs or more would take {size} of memory or more; allowed: "
            f"{MOST_PES:,} PEs; try a part of the machine, or PEs that stand for several, with their speed"
        )


def _machine(scenario: Scenario) -> Iterator[Share]:
    platform = scenario.platform
    nodes, cores = platform.n_nodes, sum(group.count * group.cores for group in platform.nodes)
    each = _NODE + _RESOURCES * bool(platform.resource_names)
    yield Share("platform.nodes.count", f"{nodes:,} nodes", nodes * each)
    yield Share("platform.nodes.cores", f"{cores:,} cores", cores * _CORE)
    if platform.network.topology is not words.Topology.FULLY_CONNECTED:
        yield Share("platform.network.topology", f"{nodes:,} nodes to route between", nodes * _GRAPH)
    for row, count in enumerate(_failing(scenario)):
        yield Share(f"platform.random_failures.{row}", f"{count:,} nodes that may fail", count * _FAILING)


def _failing(scenario: Scenario) -> list[int]:
    """Count the nodes of each entry of random failures."""
    groups = [(group.name, group.count) for group in scenario.platform.nodes]
    entries = scenario.platform.random_failures
    return [sum(map(len, amount_types.node_ranges(entry.nodes, groups))) for entry in entries]


def _counted_loop(scenario: Scenario) -> Iterator[Share]:
    iterations = scenario.application.iterations
    if scenario.application.model is words.ApplicationModel.LOOP and iterations and iterations.count:
        yield _loop_share(scenario, "application.iterations.count", iterations.count)


def _loop_share(scenario: Scenario, key: str, count: int, found: str = "") -> Share:
    """Return what the costs of a loop take; those that are not listed take nothing."""
    application = scenario.application
    if count * application.time_steps > application_section.MOST_ITERATIONS:
        raise InputError(
            f"{scenario.source}: {key}: {found or f'{count:,} iterations'}, "
            f"{application.time_steps:,} time steps; "
            f"allowed: {application_section.MOST_ITERATIONS:,} (2^62) iterations in all"
        )
    listed = lists_costs(application, count)
    return Share(key, found or f"{count:,} iterations", count * _ITERATION if listed else 0)


def check_list(scenario: Scenario, count: int) -> None:
    """Refuse a list of the costs of this many iterations that does not fit in memory."""
    found = f"the costs of {count:,} iterations"
    check_memory(scenario.source, [Share("application.iterations", found, count * _ITERATION)])


def lists_costs(application: application_section.ApplicationConfig, n: int) -> bool:
    """Whether a loop of n iterations needs each cost: for user-defined models, or selection by simulation."""
    selects = application.selects
    by_simulation = selects is not None and selects.method is words.SelectionMethod.SIMULATION
    own_model = not isinstance(application.execution.model, words.ExecutionModel)
    return by_simulation or own_model or not costs_section.has_linear_costs(application.costs, n)


def check_loop_alone(scenario: Scenario, held: int = 0) -> None:
    """Refuse a loop on all PEs of the machine that cannot be held; see :func:`check_loop`."""
    most, nodes = scenario.application.pes_per_node, scenario.platform.nodes
    cores = (group.cores if most is None else min(group.cores, most) for group in nodes)
    check_loop(scenario, sum(group.count * each for group, each in zip(nodes, cores, strict=True)), held)


def check_loop(scenario: Scenario, pes: int, held: int = 0) -> None:
    """Refuse a loop on this many PEs that does not fit in memory with the results of ``held`` other loops."""
    check_pes(scenario.source, pes)
    chosen = scenario.application.iterations
    shares = [*_machine(scenario), Share("PEs", f"{pes:,} PEs of one loop", pes * _PE)]
    if held:
        each = pes * _PE_HELD + scenario.platform.n_nodes * _NODE
        shares.append(Share("results", f"of {held:,} other loops on as many PEs", held * each))
    if chosen is not None and chosen.per_pe is not None:
        found = f"{chosen.per_pe:,} iterations on each of {pes:,} PEs"
        shares.append(_loop_share(scenario, "application.iterations.per_pe", chosen.per_pe * pes, found))
    else:
        shares += _counted_loop(scenario)
    check_memory(scenario.source, shares)


def check_failures(scenario: Scenario, last: float) -> None:
    """Refuse endless failures until the ``last`` job is submitted [s]."""
    for row, count in enumerate(_failing(scenario)):
        entry = scenario.platform.random_failures[row]
        failures = count * last / (entry.mtbf + entry.mttr)
        if failures > _MOST_FAILURES:
            hours = failures * _SECONDS_A_FAILURE / 3600
            raise InputError(
                f"{scenario.source}: platform.random_failures.{row}: {count:,} nodes would fail "
                f"{failures:.1e} times until the last job is submitted ({last:.6g} s), which would take "
                f"about {hours:,.0f} h; allowed: {_MOST_FAILURES:.0e} failures; try a longer mtbf or mttr, "
                "fewer nodes, or a part of the log (workload.select)"
            )
