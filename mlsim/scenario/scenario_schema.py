"""The scenario as a whole, and the rules that join its sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, PrivateAttr

from mlsim._files import HeldFile
from mlsim.errors import InputError
from mlsim.scenario import assignment_section, words
from mlsim.scenario.amount_types import JobNumbers, TimeWindow
from mlsim.scenario.application_section import ApplicationConfig
from mlsim.scenario.assignment_section import AssignRule
from mlsim.scenario.batch_section import BatchConfig, CoordinationConfig, replay_obstacle
from mlsim.scenario.field_types import Name, Natural, OneOf, Paragraph, Switch
from mlsim.scenario.measured_costs import charged
from mlsim.scenario.platform_section import PlatformConfig
from mlsim.scenario.resources_section import CORES, MEMORY
from mlsim.scenario.section_base import Section, Violation, plugin_list
from mlsim.scenario.technique_section import RELEASING, properties_of
from mlsim.scenario.workload_section import WorkloadConfig


class OutputConfig(Section):
    """Output of a run."""

    trace: OneOf[words.TraceLevel] = words.TraceLevel.NONE
    """Detail of the OTF2 trace: none, jobs (queue and jobs), nodes (also what each node does), chunks (also
    every chunk of every PE) or messages (also how PEs get them: requests and replies, or atomics on windows).
    """
    trace_details: Switch = False
    """Whether each chunk in the trace also has its first iteration and its scheduling step, which follow from
    the iterations of the chunks before it and make the trace a third larger. For chunks
    and messages.
    """
    trace_apart: Switch = False
    """Whether events of a row of the trace at the same time are moved apart, by 1 ns each, as `mlsim trace
    convert --for pipit` does afterwards.
    """
    trace_window: TimeWindow | None = Field(None, examples=[["1 h", "2 h"]])
    """Span of time that the trace shows, from the scenario's start; what is open at its ends is entered and
    left there. Default: all of the run.
    """
    trace_jobs: JobNumbers | None = Field(None, examples=[[17, 18]])
    """Numbers of the jobs that the trace shows; metrics are those of all. Default: all jobs."""
    trace_rows: OneOf[words.TraceRows] = words.TraceRows.AUTO
    """Rows of the trace, each of which takes two files: cores (at the levels jobs and nodes those of a node
    are one row where jobs have their nodes to themselves), nodes (one row each, with the chunks of its cores
    shown together), or auto: cores up to 997 rows, beyond that nodes, or several nodes in a row.
    """
    pictures: Switch = True
    """Draw pictures."""
    csv: Switch = False
    """Also write tables as CSV."""
    batsim: Switch = False
    """Also write the jobs and the schedule as the simulator Batsim does (out_jobs.csv, out_schedule.csv)."""
    passes: Switch = False
    """Whether every pass of the dispatcher is written (passes.parquet): time, queue length, starts, wall
    time.
    """
    writers: Annotated[tuple[str, ...], plugin_list("mlsim.writers")] | None = Field(
        None, examples=[["./mine.py:write"]]
    )
    """Writers of further files: functions in files, or installed ones, which get the run and a directory; see
    docs/reference/records.md. Default: none.
    """

    def broken_rules(self) -> Iterator[Violation]:
        """Check what a trace shows."""
        if self.trace_details and not self.trace.shows_chunks:
            message = "adds details of chunks, and needs trace: chunks; try trace: chunks, or leave it out"
            yield Violation("trace_details", message, ("trace",))
        if self.trace_rows is words.TraceRows.NODES and self.trace is words.TraceLevel.MESSAGES:
            message = "has no rows of single PEs, whose requests trace: messages shows; try trace: chunks"
            yield Violation("trace_rows", message, ("trace",))
        for key in ("trace_apart", "trace_rows", "trace_window", "trace_jobs"):
            if self.trace is words.TraceLevel.NONE and self.is_set(key):
                message = "is about a trace, and needs one; try trace: jobs, or leave it out"
                yield Violation(key, message, ("trace",))


@dataclass(frozen=True)
class Origin:
    """Origin of a scenario; two scenarios that differ only in this are equal."""

    directory: Path = field(default=Path(), compare=False)
    source: str = field(default="scenario", compare=False)
    earlier: tuple[Path, ...] = field(default=(), compare=False)
    jobs: HeldFile | None = field(default=None, compare=False)
    application: str = field(default="", compare=False)  # the one of several that this scenario is of


_OF_APPLICATION = re.compile(rf"\bapplication(?=\.(?:{'|'.join(ApplicationConfig.model_fields)})\b)")


class Scenario(Section):
    """Scenario of a simulation: the content of a scenario file, in SI units."""

    name: Name = "scenario"
    """Name of the scenario. Default: the file's name without suffix."""
    description: Paragraph = ""
    """What the scenario shows; free text."""
    seed: Natural = 0
    """Seed of every random number of a run."""
    platform: PlatformConfig
    """The machine."""
    workload: WorkloadConfig
    """The jobs."""
    batch: BatchConfig = Field(default_factory=BatchConfig)
    """How the queue is served."""
    application: ApplicationConfig = Field(default_factory=ApplicationConfig)
    """The application of all jobs."""
    applications: dict[str, ApplicationConfig] | None = Field(None, examples=[{"rigid": {"model": "rigid"}}])
    """Several applications, by names of your own; each is a section as application. Jobs get theirs by a
    column application of the workload, or by assign.
    """
    assign: tuple[AssignRule, ...] | None = None
    """Rules by which jobs get their application; the first one that matches holds."""
    coordination: CoordinationConfig = Field(default_factory=CoordinationConfig)
    """Messages between the two levels."""
    output: OutputConfig = Field(default_factory=OutputConfig)
    """Output of a run."""

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @property
    def directory(self) -> Path:
        """First directory for relative paths of the scenario."""
        return self._origin.directory

    @property
    def source(self) -> str:
        """Source of the scenario: a file, or the caller's name for its text."""
        return self._origin.source

    @property
    def earlier(self) -> tuple[Path, ...]:
        """Next directories for its files: for a run's scenario, that of the original scenario file."""
        return self._origin.earlier

    def located(self, directory: Path, source: str, earlier: tuple[Path, ...] | None = None) -> Scenario:
        """Return the same scenario as one that was read in ``directory`` from ``source``."""
        copy = self.model_copy()
        known = self.earlier if earlier is None else earlier
        copy._origin = replace(self._origin, directory=directory, source=source, earlier=known)
        return copy

    def with_seed(self, seed: int) -> Scenario:
        """Return the same scenario with another seed, which no rule reads."""
        return self.model_copy(update={"seed": seed})

    @property
    def jobs_file(self) -> Path | None:
        """The file of a workload that was given as a table; None if it was given as a path."""
        return None if self._origin.jobs is None else self._origin.jobs.path

    def with_jobs(self, jobs: HeldFile) -> Scenario:
        """Return the same scenario with the jobs of a file that lasts as long as the scenario does."""
        log = self.workload.model_copy(
            update={"path": str(jobs.path), "format": words.WorkloadFormat.PARQUET, "generate": None}
        )
        copy = self.model_copy(update={"workload": log})
        copy._origin = replace(self._origin, jobs=jobs)
        return copy

    @property
    def by_application(self) -> dict[str, Scenario]:
        """For each application, by name, the scenario in which all jobs have it; with one, itself by ""."""
        if self.applications is None:
            return {"": self}
        return {name: self.of_application(name, section) for name, section in self.applications.items()}

    def of_application(self, name: str, section: ApplicationConfig) -> Scenario:
        """Return the scenario in which all jobs have an application, which messages call by its name."""
        copy = self.model_copy(update={"application": section, "applications": None, "assign": None})
        copy._origin = replace(self._origin, application=name)
        return copy

    @property
    def assigns(self) -> bool:
        """Whether jobs have applications of their own, or costs of their own by a path with columns."""
        return self.applications is not None or self.application.costs.by_column

    @property
    def runs_loops(self) -> bool:
        """Whether an application executes a loop."""
        return any(section.model is words.ApplicationModel.LOOP for _, section in self._sections())

    def with_own_keys(self, text: str) -> str:
        """Return a text in which keys of the application have their place in the scenario file."""
        name = self._origin.application
        return _OF_APPLICATION.sub(f"applications.{name}", text) if name else text

    @contextmanager
    def own_keys(self) -> Iterator[None]:
        """Name keys of the application in messages of errors by their place in the scenario file."""
        try:
            yield
        except InputError as error:
            if not self._origin.application:
                raise
            raise type(error)(self.with_own_keys(str(error))) from error

    def _sections(self) -> list[tuple[str, ApplicationConfig]]:
        """List the applications with their keys."""
        if self.applications is None:
            return [("application", self.application)]
        return [(f"applications.{name}", section) for name, section in self.applications.items()]

    def _model_keys(self) -> tuple[str, ...]:
        return tuple(f"{key}.model" for key, _ in self._sections())

    def _broken_applications(self) -> Iterator[Violation]:
        """Check the names of applications, and the rules that assign them."""
        if self.applications is None:
            if self.assign is not None:
                yield Violation("assign", "assigns one of several applications; write applications: as well")
            return
        if self.is_set("application"):
            message = "given together with applications; write it there, under a name of your own"
            yield Violation("application", message, ("applications",))
        if not self.applications:
            message = "empty; write one or more, e.g. {rigid: {model: rigid}}"
            yield Violation("applications", message)
        for name in self.applications:
            if not assignment_section.NAME.fullmatch(name):
                message = f"{name!r:.70} is no name; allowed: {assignment_section.ALLOWED_NAMES}"
                yield Violation("applications", message)
        yield from assignment_section.wrong_rules(self.assign or (), self.applications)

    def broken_rules(self) -> Iterator[Violation]:
        """Check mapping against cores, coordination against the model, PEs against cores."""
        yield from self._broken_applications()
        obstacle = replay_obstacle(self)
        if self.batch.engine is words.Engine.REPLAY and obstacle is not None:
            key, needed = obstacle
            message = (
                f"replay simulates jobs whose end is known at their start, and needs {key}: {needed}; try "
                "engine: auto or simpy"
            )
            yield Violation("batch.engine", message, (key,))
        if self.coordination.released_nodes is words.ReleasedNodes.SHORT_FIRST and (
            self.batch.backfill is words.Backfill.CONSERVATIVE or self.batch.reservations > 1
        ):
            message = "short-first respects one reservation at most; try batch.reservations: 1, or any"
            yield Violation("coordination.released_nodes", message, ("batch.backfill", "batch.reservations"))
        yield from self._broken_forecasts()
        yield from self._broken_recorded()
        yield from self._broken_easy()
        cores = sorted({group.cores for group in self.platform.nodes})
        yield from self._broken_requests()
        nodes = tuple(f"platform.nodes.{row}.cores" for row in range(len(self.platform.nodes)))
        if self.workload.mapping is words.Mapping.PACKED and len(cores) > 1:
            counts = ", ".join(map(str, cores))
            message = (
                f"packed needs nodes with equally many cores, and the groups have {counts}; try mapping: core"
            )
            yield Violation("workload.mapping", message, nodes)
        if (
            self.coordination.requests is not words.RequestRule.NEVER
            and self.workload.mapping is words.Mapping.CORE
        ):
            message = "asks for whole nodes, and jobs share nodes; try workload.mapping: packed or node"
            yield Violation("coordination.requests", message, ("workload.mapping",))
        asks, models = self.coordination.requests is not words.RequestRule.NEVER, self._model_keys()
        for place, section in self._sections():
            model = section.execution.model
            properties = properties_of(model)  # of the user's own, those are looked at in a run
            if asks and properties is not None and not properties.releases:
                allowed = ", ".join(RELEASING)
                message = (
                    f"nodes cannot leave a loop under execution model {model}; allowed models: {allowed}"
                )
                yield Violation("coordination.requests", message, (f"{place}.execution.model",))
        fixed = self.applications is None and not self.runs_loops  # else a study may add loops: only a note
        if self.coordination.rca and fixed:
            message = (
                f"on, but a rigid job has no idle nodes to release; write {models[0]}: loop, or rca: off"
            )
            yield Violation("coordination.rca", message, models)
        if self.platform.perturbations and fixed:
            message = (
                "only loops can be slowed down, the run time of a rigid job is fixed; write "
                f"{models[0]}: loop, or take it out"
            )
            yield Violation("platform.perturbations", message, models)
        if self.batch.on_failure is words.FailureRule.RESUME and self.runs_loops:
            message = (
                "resume: a loop keeps no record of which chunks its lost nodes had done; allowed for loops: "
                "die, restart"
            )
            yield Violation("batch.on_failure", message, models)
        yield from self._broken_messages()
        yield from self._broken_cap()
        yield from self._broken_drains()
        for place, section in self._sections():
            pes = section.pes_per_node
            if pes is not None and pes > cores[-1]:
                message = f"{pes} is more than any node has cores; allowed: 1 to {cores[-1]}"
                yield Violation(f"{place}.pes_per_node", message, nodes)

    def _broken_drains(self) -> Iterator[Violation]:
        """Check that the dispatcher can plan around announced drains."""
        batch = self.batch
        rows = [row for row, drain in enumerate(self.platform.drains) if drain.announced]
        if not rows:
            return
        key = f"platform.drains.{rows[0]}.announced"
        if isinstance(batch.dispatcher, words.Dispatcher) and batch.dispatcher.solves:
            message = (
                f"{batch.dispatcher} plans as if its nodes were there for ever; allowed: off, or one of the "
                "dispatchers queue, prb, reject, and plugins"
            )
            yield Violation(key, message, ("batch.dispatcher",))
        several = batch.backfill is words.Backfill.CONSERVATIVE or batch.reservations > 1
        if batch.power_cap is not None and several:
            message = (
                "under a power cap, dispatchers plan around drains with one reservation at most; try "
                "batch.backfill: easy with batch.reservations: 1, or off"
            )
            yield Violation(key, message, ("batch.power_cap", "batch.backfill", "batch.reservations"))

    def _broken_recorded(self) -> Iterator[Violation]:
        """Check that jobs keep the recorded starts that the dispatcher asks for."""
        workload, drains = self.workload, enumerate(self.platform.drains)
        wrong = {
            "workload.generate": workload.generate is not None,
            "workload.resample": workload.resample is not None,
            "workload.select.scale_load": workload.select.scale_load != 1,
            "workload.feedback": workload.feedback,
            **{f"platform.drains.{row}.announced": drain.announced for row, drain in drains},
        }
        for key in wrong if self.batch.dispatcher is words.Dispatcher.RECORDED else ():
            if wrong[key]:
                message = (
                    "dispatcher recorded plans nothing, and keeps the submissions of the log; take it out"
                )
                yield Violation(key, message, ("batch.dispatcher",))

    def _broken_forecasts(self) -> Iterator[Violation]:
        """Check that what is to see forecasts is EASY with one reservation."""
        needs = {"dispatcher": "queue", "backfill": "easy", "easy": "standard", "reservations": 1}
        for key, needed in needs.items() if self.coordination.forecasts is not None else ():
            if (found := getattr(self.batch, key)) != needed:
                message = f"read with batch.{key}: {needed}, and it is {found}; write that, or take this out"
                yield Violation("coordination.forecasts", message, (f"batch.{key}",))

    def _broken_easy(self) -> Iterator[Violation]:
        """Reject options that the emulated EASY variant does not support."""
        easy = self.batch.easy
        if self.batch.names_nodes and self.batch.power_cap is not None:
            key = "compression" if self.batch.backfill is words.Backfill.CONSERVATIVE else "easy"
            message = f"{getattr(self.batch, key)} reserves nodes, and no power; take one of them out"
            yield Violation(f"batch.{key}", message, ("batch.power_cap", "batch.backfill"))
        if self.batch.backfill is not words.Backfill.EASY or easy is words.EasyRule.STANDARD:
            return
        if self.coordination.released_nodes is words.ReleasedNodes.SHORT_FIRST:
            message = f"short-first respects the standard EASY's reservation, not that of {easy}; try any"
            yield Violation("coordination.released_nodes", message, ("batch.easy", "batch.backfill"))
        if easy is words.EasyRule.CQSIM and self.runs_loops:
            message = "cqsim judges jobs by their actual run times, and a loop's is not known; try standard"
            yield Violation("batch.easy", message, (*self._model_keys(), "batch.backfill"))
        if any(drain.announced for drain in self.platform.drains):
            message = (
                f"only the standard EASY plans around announced drains, not that of {easy}; try standard"
            )
            yield Violation("batch.easy", message, ("platform.drains", "batch.backfill"))

    def _broken_messages(self) -> Iterator[Violation]:
        """Check that requests and replies are recorded, if the trace is to show them."""
        if self.output.trace is not words.TraceLevel.MESSAGES:
            return
        models = self._model_keys()
        if not self.runs_loops:
            message = f"messages, but a rigid job sends none; write {models[0]}: loop, or trace: jobs"
            yield Violation("output.trace", message, models)
            return
        loops = [(place, of) for place, of in self._sections() if of.model is words.ApplicationModel.LOOP]
        for place, section in loops[1:]:
            if section.execution != loops[0][1].execution:
                message = (
                    "messages, which show one way of getting chunks, and loops have several; write the same "
                    f"{place}.execution as {loops[0][0]}.execution, or trace: chunks"
                )
                yield Violation("output.trace", message, (f"{place}.execution", f"{loops[0][0]}.execution"))
        for place, section in loops:
            if section.execution.request_ahead > 0:
                key = f"{place}.execution.request_ahead"
                message = (
                    "messages, but records do not tell when the master replied to a PE that was still "
                    f"executing; write {key}: 0, or trace: chunks"
                )
                yield Violation("output.trace", message, (key,))
            for name in ("request_cost", "start_up"):
                if getattr(charged(section.execution).parameters, name) > 0.0:
                    key, nothing = f"{place}.execution.parameters.{name}", "0 s"
                    if not section.execution.parameters.is_set(name):
                        key, nothing = f"{place}.execution.parameters.measured", "none"
                    message = (
                        "messages, but records have no time at which a request left that took time to make, "
                        f"or waited for its PE to start; write {key}: {nothing}, or trace: chunks"
                    )
                    yield Violation("output.trace", message, (key,))

    def _broken_cap(self) -> Iterator[Violation]:
        """Check that a power cap and measured power have the power of nodes, and that a job may start."""
        levels = self.batch.power_cap
        powers = [group.power for group in self.platform.nodes]
        known = [power for power in powers if power is not None]
        involved = ("platform.nodes", "workload.mapping")
        if len(known) < len(powers):
            message = "needs the power of the nodes; write platform.nodes.0.power: {idle: ..., busy: ...}"
            if levels is not None:
                yield Violation("batch.power_cap", message, involved)
            if self.workload.power is not None:
                yield Violation("workload.power", message, ("platform.nodes",))
            return
        if levels is None:
            return
        shared = self.workload.mapping is words.Mapping.CORE
        added = [
            (power.busy - power.idle) / (group.cores if shared else 1)
            for power, group in zip(known, self.platform.nodes, strict=True)
        ]
        unit = "core" if shared else "node"
        idle = sum(power.idle * group.count for power, group in zip(known, self.platform.nodes, strict=True))
        highest = max(watts for _, watts in levels)
        if levels[0][0] == 0.0 and highest < idle + min(added):
            message = (
                f"{highest:g} W is too little for any job: the idle machine takes {idle:g} W, and a job's "
                f"first {unit} {min(added):g} W more"
            )
            yield Violation("batch.power_cap", message, involved)

    def _broken_requests(self) -> Iterator[Violation]:
        """Check that units ask only for resources that the platform has."""
        request, known = self.workload.request, self.platform.resource_names
        groups = tuple(
            f"platform.nodes.{row}.{key}"
            for row in range(len(self.platform.nodes))
            for key in ("memory", "resources")
        )
        names = ", ".join((CORES, *known))
        for key in ("memory", "default_memory"):
            asks = getattr(request, key) not in (words.MemorySource.NONE, 0.0)
            if asks and MEMORY not in known:
                message = "no node group says how much memory its nodes have; write memory: 16 GB there"
                yield Violation(f"workload.request.{key}", message, groups)
        for name in request.resources:
            if name not in known:
                message = f"{name} is no resource of the platform; it has: {names}"
                yield Violation("workload.request.resources", message, groups)
            elif request.resources[name] % 1 and name not in self.platform.device_names:
                message = f"a share is of a device; the platform counts {name}: write {name}: 8 devices there"
                yield Violation("workload.request.resources", message, groups)
        for name in self.batch.demand or ():
            if name not in known:
                message = f"{name} is no resource of the platform; it has: {', '.join(known)}"
                yield Violation("batch.demand", message, ("platform.nodes",))
        yield from self._broken_shares()
        if request.cores > 1 and self.workload.mapping is not words.Mapping.CORE:
            given = self.workload.mapping
            message = f"{request.cores}, but mapping: {given} gives whole nodes; write mapping: core"
            yield Violation("workload.request.cores", message, ("workload.mapping",))

    def _broken_shares(self) -> Iterator[Violation]:
        """Check that jobs ask the machine as a whole only for what it has, in the same unit."""
        has, key = self.platform.shares, "workload.request.shared"
        asked = self.workload.request.shares
        if missing := [name for name in asked if name not in has]:
            verb = "is" if len(missing) == 1 else "are"
            names = ", ".join(missing)
            message = f"{names} {verb} not shared on the platform; it has: {', '.join(has) or 'nothing'}"
            yield Violation(key, message, ("platform.shared",))
        for name, share in asked.items():
            if name in has and share.base != has[name].base:
                counted = f"in {has[name].unit}" if has[name].base else "without unit"
                message = f"{name}: the platform counts it {counted}; write it so here as well"
                yield Violation(key, message, ("platform.shared",))
