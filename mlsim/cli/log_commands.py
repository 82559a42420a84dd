"""``mlsim workload``: all its commands; here those that read a log, and ``profile``."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from rich.text import Text

from mlsim import _jit
from mlsim._files import expanded, is_file
from mlsim._runtime import arrays, late, work_progress
from mlsim.analysis import job_metrics, terminal_tables
from mlsim.analysis.table_layout import NumberTable
from mlsim.application.profiles.profile_costs import Request, fixed_length, iteration_costs
from mlsim.cli import command_options as cli
from mlsim.cli import convert_command, workload_commands
from mlsim.cli.command_options import Json, Lenient, Options, argument, flag, option, output
from mlsim.cli.command_output import new_files, print_json, show, show_rows, working
from mlsim.errors import InputError
from mlsim.scenario import field_types, section_base, simulation_demand
from mlsim.scenario.costs_section import COUNTED, CostsConfig
from mlsim.scenario.words import CostProfile, Predictor
from mlsim.workload import log_facts
from mlsim.workload.log_formats import FORMATS
from mlsim.workload.log_gaps import understood_lines

_FORMS = (".png", ".pdf", ".svg")


class _DescribeOptions(Options):
    log: Path = argument("The workload.", "LOG")
    other: Path | None = argument("Another, beside it.", "[LOG2]", default=None)
    from_: str = option("Format of the logs; auto: detected by content.", "--from", "FORMAT", default="auto")
    lenient: Lenient = False
    json_: Json = False
    months: bool = flag("Show each calendar month: jobs, load, mean processors and run time.", "--months")
    lags: int = option(
        "Show the autocorrelation of run times within categories of jobs, up to this lag.",
        "N",
        default=0,
        min=0,
        max=1000,
    )
    picture: Path | None = option("Draw a page of pictures (.png, .pdf, .svg); must not exist.", "FILE")


def describe(options: _DescribeOptions) -> None:
    """Describe a log as it is: counts, load, cycles, distributions, users.

    mlsim workload describe log.swf.gz made.swf --picture both.pdf
    """
    picture, log_format = options.picture, options.from_
    if picture is not None and picture.suffix.lower() not in _FORMS:
        raise InputError(f"--picture {picture}; allowed: a name that ends in {', '.join(_FORMS)}")
    if log_format not in ("auto", *FORMATS):
        raise InputError(f"--from {log_format}; allowed: auto, {', '.join(sorted(FORMATS))}")
    paths = [path for path in (options.log, options.other) if path is not None]
    with (
        new_files([] if picture is None else [picture]) as parts,
        working("reading logs", len(paths)) as work,
    ):
        logs = [
            log_facts.describe(path, log_format=log_format, lenient=options.lenient, lags=options.lags)
            for path in work_progress.followed(paths, work)
        ]
        if picture is not None:
            log_facts.draw_page(parts[0], logs, picture.suffix.lower()[1:])
    if options.json_:
        print_json([each.facts for each in logs])
        return
    for log in (each.facts for each in logs):
        show(Text("\n".join(understood_lines(log))))
    rows = ((title, *cells) for title, cells in _rows([each.facts for each in logs]))
    show(NumberTable(("", *(each.facts["log"] for each in logs)), rows, ruled=True))
    for log in (each.facts for each in logs):
        if options.months and log["months"]:  # unknown without UnixStartTime
            show_rows(f"\n{log['log']}: months", log["months"], ",.2f")
        if options.lags:
            heading = f"\n{log['log']}: autocorrelation of run times, median (quartiles)"
            show_rows(heading, _lag_rows(log, options.lags))
        if log["missing"]:
            show(Text("\n  ".join([f"\n{log['log']} lacks, for", *log["missing"]])))


def _lag_rows(log: dict[str, Any], lags: int) -> list[dict[str, object]]:
    """Return the lines of the table of lags, with the number of categories in the title of each column."""
    rows: list[dict[str, object]] = [{"lag": lag + 1} for lag in range(lags)]
    for name, found in log["autocorrelation"].items():
        for k, row in enumerate(rows):
            text = "{median:.2f} ({p25:.2f} to {p75:.2f})"
            row[f"{name}: {found['categories']}"] = text.format(**found["lags"][k]) if found["lags"] else "-"
    return rows


# First lines of the table, by title.
_PLAIN = {
    "jobs": "{jobs:,}",
    "users": "{users:,}",
    "processors": "{processors:,}",
    "first submission": "{first_submission}",
    "last submission": "{last_submission}",
    "days": "{days:,.2f}",
    "offered load": "{load:.3f}",
}
_UNITS = {"run_time": " (s)", "walltime": " (s)", "wait_time": " in the log (s)", "interval": " (s)"}


def _rows(logs: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of the table: a title, and a cell for each log."""
    for title, form in _PLAIN.items():
        key = form[1:-1].partition(":")[0]
        yield title, ["-" if each[key] is None else form.format(**each) for each in logs]
    for word in ("completed", "failed", "cancelled", "other"):
        if any(word in each["status"] for each in logs):
            yield f"  {word}", [f"{each['status'].get(word, 0):,}" for each in logs]
    for name in logs[0]["unknown"]:
        if any(each["unknown"][name] for each in logs):
            yield f"  without {name}", [f"{each['unknown'][name]:,}" for each in logs]
    for name, figures in logs[0]["distributions"].items():
        yield f"{name}{_UNITS.get(name, '')}", [""] * len(logs)
        for figure in figures or {"mean": 0}:
            found = [each["distributions"][name] for each in logs]
            yield f"  {figure}", ["-" if each is None else f"{each[figure]:,.6g}" for each in found]
    arrivals = [each["arrivals"] for each in logs]
    busiest = [max(range(24), key=each["by_hour"].__getitem__) for each in arrivals]
    yield "busiest hour of the day", [f"{hour}:00" for hour in busiest]
    weekend = [sum(each["by_weekday"][5:]) / sum(each["by_weekday"]) for each in arrivals]
    yield "arrivals on Sat and Sun", [f"{100 * share:.1f} %" for share in weekend]
    yield "load of the heaviest week", [f"{max(each['weekly_load']):.3f}" for each in logs]
    most = [sum(user["jobs"] for user in each["most_active_users"][:1]) for each in logs]
    shares = [100 * jobs / each["jobs"] for jobs, each in zip(most, logs, strict=True)]
    yield "jobs of the most active user", [f"{share:.1f} %" if share else "-" for share in shares]


class _PredictOptions(Options):
    log: Path = argument("Workload; also looked up in $MLSIM_TRACES.", "LOG")
    predictor: list[str] | None = option(
        "As `mlsim list predictors` names it, or ./file.py:Class; may be repeated.",
        "--predictor",
        "-p",
        "PREDICTOR",
        show_default="all",
    )
    lenient: Lenient = False
    json_: Json = False


def predict(options: _PredictOptions) -> None:
    """Compare predictors on the jobs of LOG as they were run: they learn when jobs ended there.

    No queue is simulated. `batch.predictor` of a scenario names the one that a dispatcher uses.
    """
    from mlsim.batch.predictors.offline import predictions, read_history

    log, known = options.log, section_base.plugin_name(Predictor, "mlsim.predictors")
    every = [word.value for word in Predictor] + list(section_base.installed_names("mlsim.predictors"))
    try:  # as the catalogue spells them
        names = [str(known.parse(name)) for name in options.predictor or ()] or every
    except ValueError as error:
        raise InputError(f"--predictor: {error}") from error
    directories = [Path(name) for name in os.environ.get("MLSIM_TRACES", "").split(os.pathsep) if name]
    places = [log, *(expanded(directory) / log for directory in directories)]
    with working(f"{len(names)} predictors", len(names)) as work:
        history = read_history(next(filter(is_file, places), log), options.lenient)
        run_time = history.jobs.run_time
        rows = {
            name: job_metrics.accuracy(predictions(history, name), run_time)
            for name in work_progress.followed(names, work)
        }
    if options.json_:
        print_json({"log": str(log), "unknown_waits": history.unknown_waits, "predictors": rows})
        return
    show(f"{log}: {len(run_time):,} jobs")
    if history.unknown_waits:
        show(f"  {history.unknown_waits:,} of unknown wait, taken as if they had not waited")
    show(terminal_tables.accuracy_table(rows))


_distribution = partial(option, rich_help_panel="Distributions")
_image = partial(option, rich_help_panel="mandelbrot")
_spin = partial(option, rich_help_panel="psia")


class _ProfileOptions(Options):
    name: str = argument("As `mlsim list profiles` names it.", "PROFILE")
    out: Path = output("File of costs to write, .npy or .csv; must not exist.", "FILE", default=cli.REQUIRED)
    iterations: str | None = option(
        "Iterations; all but mandelbrot and file need it.", "--iterations", "-n", "N"
    )
    mean: str | None = option("Mean cost, e.g. '20 ms'; scales mandelbrot, psia, file.", "TIME")
    std: str | None = _distribution("normal, gamma, lognormal, bimodal: standard deviation.", "TIME")
    low: str | None = _distribution("uniform, increasing, decreasing: least cost; bimodal: one mode.", "TIME")
    high: str | None = _distribution(
        "uniform, increasing, decreasing: largest cost; bimodal: the other mode.", "TIME"
    )
    share: str | None = _distribution("bimodal: share of iterations that cost high.", "0..1")
    path: str | None = _distribution("file: the costs to read.", "FILE")
    column: str | None = _distribution("file: the column of costs, by name or number.", "NAME")
    seed: int = _distribution("Seed of the random numbers; default 0.", "N", default=0, show_default=False)
    size: str | None = _image("Width and height; default 1152.", "PIXELS")
    limit: str | None = _image("Most steps of z; default 1000.", "STEPS")
    exponent: str | None = _image("Of z^E + c; default 4.", "E")
    window: str | None = _image("Real and imaginary parts of c; default -2,2,-2,2.", "X0,X1,Y0,Y1")
    points: str | None = _spin("Points of the cloud; default 800000.", "N")
    image_width: str | None = _spin("Of a spin image; default 5.", "BINS")
    bin_size: str | None = _spin("Of the cloud's largest extent; default 0.01.", "SHARE")
    support_angle: str | None = _spin("Largest angle between normals; default 2.", "RAD")
    cloud_seed: str | None = _spin("Seed of the cloud; default 0.", "N")
    scan_cost: str | None = _spin("Of looking at a point, in costs of counting one; default 0.", "SHARE")
    unit_cost: str | None = option("mandelbrot, psia: of one step or point, not mean.", "TIME")
    reference_speed: str = option("That costs in FLOP are divided by.", "SPEED", default="1 GFLOP/s")
    picture: bool = option(
        "Whether to draw the costs, into FILE's name with .png.", "--picture/--no-picture", default=True
    )
    json_: Json = False


# Options that set no key of a scenario's section of costs.
_NOT_OF_COSTS = ("name", "out", "iterations", "seed", "reference_speed", "picture", "json_")


def profile(options: _ProfileOptions) -> None:
    """Compute the costs of a loop's iterations, in seconds, and write them to a file.

    The costs of mandelbrot and psia are counts unless --mean or --unit-cost converts them to time.

    mlsim workload profile mandelbrot --size 1152 --limit 1000 --exponent 4 -o m.npy
    """
    out = options.out
    if options.json_:
        _jit.quiet()
    costs, unit = _read_costs(options)
    n = _length_of(costs, options.iterations)
    speed = cli.amount("--reference-speed", options.reference_speed, field_types.RATE, positive=True)
    if out.suffix.lower() not in (".npy", ".csv"):
        raise InputError(f"--out {out}: a file of type '{out.suffix}'; allowed: .npy, .csv")
    targets = [out, out.with_suffix(".png")] if options.picture else [out]
    with new_files(targets) as partial_files, working(f"iteration costs of {costs.profile}"):
        simulation_demand.check_memory(
            "--iterations", [simulation_demand.Share("--iterations", f"{n:,} iterations", n * 8)], "the costs"
        )
        values = iteration_costs(Request(costs, n, options.seed, speed))
        if out.suffix.lower() == ".npy":
            with partial_files[0].open("wb") as binary:
                np.save(binary, values)
        else:
            with partial_files[0].open("w", encoding="utf-8") as file:
                file.write("cost\n")
                file.writelines(f"{value!r}\n" for value in values.tolist())
        if options.picture:
            late.load_matplotlib()
            from mlsim.analysis import plots

            window = costs.parameters.window
            extent = (window.x_min, window.x_max, window.y_min, window.y_max)
            image = extent if costs.profile is CostProfile.MANDELBROT else None
            picture = plots.iteration_costs(values, _title(costs, len(values)), unit, image)
            plots.write_picture(picture, partial_files[1])
    _report(values, costs, unit, targets, options.json_)


def _read_costs(options: _ProfileOptions) -> tuple[CostsConfig, str | None]:
    """Read the options as a scenario's section of costs; also what they count, None for seconds."""
    name, given = options.name, vars(options)
    texts = {key: text for key, text in given.items() if key not in _NOT_OF_COSTS and text is not None}
    values: dict[str, Any] = {
        key: text if key == "path" else cli.value_of(text) for key, text in texts.items()
    }
    if (text := options.window) is not None:
        parts = text.split(",")
        if len(parts) != 4 or not all(part.strip() for part in parts):
            raise InputError(f"--window {text}: allowed: four numbers X0,X1,Y0,Y1, e.g. --window=-2,2,-2,2")
        ends = ("x_min", "x_max", "y_min", "y_max")
        values["window"] = dict(zip(ends, map(cli.value_of, parts), strict=True))
    unit = None
    if name.casefold() in COUNTED and not {"mean", "unit_cost"} & set(texts):
        values["unit_cost"] = "1 s"
        unit = "steps of z" if name.casefold() == CostProfile.MANDELBROT else "points"
    try:
        costs = CostsConfig.model_validate({"profile": name, **values})
    except ValidationError as error:
        raise cli.option_problems(error, {"profile": ""}, skipped="parameters") from error
    if costs.profile is CostProfile.JOB:
        allowed = ", ".join(profile for profile in CostProfile if profile is not CostProfile.JOB)
        raise InputError(f"{name}: its costs are made from a job's run time; allowed: {allowed}")
    return costs, unit


def _length_of(costs: CostsConfig, iterations: str | None) -> int:
    """Return the number of iterations; 0 for a file, whose length is not known yet."""
    if costs.profile in (CostProfile.FILE, CostProfile.MANDELBROT):
        if iterations is not None:
            decides = "the file" if costs.profile is CostProfile.FILE else "--size"
            raise InputError(f"--iterations: not for {costs.profile}: {decides} decides how many there are")

        return fixed_length(costs, None) or 0
    if iterations is None:
        raise InputError(f"--iterations: missing; {costs.profile} needs it, e.g. --iterations 100000")
    try:
        return field_types.whole(1, 1_000_000_000).parse(cli.value_of(iterations))
    except ValueError as error:
        raise InputError(f"--iterations: {error}") from error


def _title(costs: CostsConfig, n: int) -> str:
    own = costs.parameters
    if costs.profile is CostProfile.MANDELBROT:
        return f"mandelbrot: {round(n**0.5)}² pixels, z^{own.exponent} + c, at most {own.limit:,} steps"
    if costs.profile is CostProfile.PSIA:
        image = f"{own.image_width}² bins of {own.bin_size:g}, {own.support_angle:g} rad"
        return f"psia: {own.points:,} points, {image}"
    return f"file: {costs.path}" if costs.profile is CostProfile.FILE else str(costs.profile)


def _report(
    values: arrays.Floats, costs: CostsConfig, unit: str | None, written: list[Path], as_json: bool
) -> None:
    """Print what the costs are, and which files were written."""
    from mlsim.analysis.plots.loop_plots import cost_facts

    facts = cost_facts(values)
    if as_json:
        files = [str(path) for path in written]
        print_json({"profile": costs.profile, **facts, "unit": unit or "s", "files": files})
        return
    print(f"{written[0]}: {len(values):,} costs, {_title(costs, len(values))}")
    cov = "-" if facts["cov"] is None else f"{facts['cov']:.4g}"
    numbers = "  ".join(f"{key} {facts[key]:.6g}" for key in ("mean", "std", "min", "max"))
    print(f"  count {facts['count']}  {numbers}  ({unit or 's'})  c.o.v. {cov}")
    if unit is not None:
        print(
            f"  counts of {unit}: give --mean or --unit-cost for seconds, or scale by application.costs.mean"
        )
    for path in written[1:]:
        print(f"{path}: picture")


workload = cli.CommandGroup("workload")
for command in (
    profile,
    workload_commands.esp,
    workload_commands.generate,
    workload_commands.fit,
    workload_commands.combine,
    workload_commands.resample,
    workload_commands.scale,
    workload_commands.eurora,
    workload_commands.kit,
    predict,
    convert_command.convert,
    describe,
):
    workload.command()(command)
