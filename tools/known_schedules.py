"""Write the page and the overview picture of the known schedules from their declarations.

Usage: python tools/known_schedules.py
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from mlsim.verify.known_schedules import KnownSchedule, read_known

HOME = Path(__file__).resolve().parents[1] / "scenarios" / "known-schedules"
PAGE, PICTURE = HOME / "README.md", HOME / "known-schedules.svg"
_HEAD = """\
# Known schedules

Small workloads, each about one question, with the exact start of each job under each rule: first come,
first served without backfilling (`fcfs`), with greedy backfilling (`greedy`), EASY (`easy`) and
conservative backfilling (`conservative`, where reservations move after early ends, in the order of the
queue, until none moves). `mlsim verify --suite` runs those of mlsim; to test another simulator see [Verify
a schedule](../../docs/how-to/verify.md#known-schedules).

A case is one YAML file, and the only copy of its numbers: `mlsim verify --suite --write DIR` writes its
workload as SWF, Batsim's JSON and CSV, and its schedules as CSV. The starts come from the rules, by hand,
and from a slow reference that shares no code with the simulator (`tests/reference/planning.py`); none is
recorded from the simulator. `derived` in each file names the way. `python tools/known_schedules.py` writes
this page and the picture.

![Each case under EASY: units over time](known-schedules.svg)

"""
_WIDTH, _HEIGHT, _COLUMNS, _GAP = 220, 84, 4, 18
_COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#997700", "#5566aa")


def page(cases: list[KnownSchedule]) -> str:
    """Return the page: question, answer, jobs and starts of each case."""
    parts = [_HEAD]
    for case in cases:
        rules = list(case.starts)
        parts.append(f"## {case.name}\n\n**{case.question}** {case.text.strip()}\n")
        keys = [f"`{key}: {_value(value)}`" for key, value in case.keys.items()]
        keys += [
            f"job {job} waits for job {other}" + (f" and {think:g} s" if think else "")
            for job, (other, think) in case.after.items()
        ]
        parts.append(f"{case.units} units" + "".join(f"; {key}" for key in keys) + ".\n")
        parts.append(f"| job | submit | run time | walltime | units | {' | '.join(rules)} |")
        parts.append("| ---: " * (5 + len(rules)) + "|")
        for job, row in enumerate(case.jobs, 1):
            starts = [
                "never" if (at := case.starts[rule][job - 1]) is None else f"{at:.17g}" for rule in rules
            ]
            parts.append(f"| {job} | {' | '.join(f'{value:.10g}' for value in row)} | {' | '.join(starts)} |")
        parts.append("")
    return "\n".join(parts)


def _value(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(
            ", ".join(f"{k} {'on' if v is True else v}" for k, v in one.items()) for one in value
        )
    return str(value)


def picture(cases: list[KnownSchedule]) -> str:
    """Return one picture of all cases: the jobs of each as rectangles of units over time."""
    rows = -(-len(cases) // _COLUMNS)
    width, height = _COLUMNS * (_WIDTH + _GAP) + _GAP, rows * (_HEIGHT + 2 * _GAP) + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for place, case in enumerate(cases):
        left = _GAP + place % _COLUMNS * (_WIDTH + _GAP)
        top = 2 * _GAP + place // _COLUMNS * (_HEIGHT + 2 * _GAP)
        parts += _panel(case, "easy", left, top)
    return "\n".join([*parts, "</svg>", ""])


def _panel(case: KnownSchedule, rule: str, left: int, top: int) -> list[str]:
    """Draw one case: each job on the lowest units that are free for its whole stay."""
    stays = [
        (start, end, job, case.jobs[job][3])
        for job, (start, end) in enumerate(zip(case.starts[rule], case.ends(rule), strict=True))
        if start is not None and end is not None
    ]
    first, last = min(stay[0] for stay in stays), max(stay[1] for stay in stays)
    across, down = _WIDTH / ((last - first) or 1.0), _HEIGHT / case.units
    parts = [
        f'<text x="{left}" y="{top - 5}" font-size="11" fill="#333333">{escape(case.name)}</text>',
        f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="#f2f2f2" stroke="#999999"/>',
    ]
    until = [first] * case.units
    for start, end, job, wide in sorted(stays):
        free = [unit for unit in range(case.units) if until[unit] <= start][:wide]
        colour = _COLOURS[job % len(_COLOURS)]
        for unit in free:
            until[unit] = end
            y = top + _HEIGHT - (unit + 1) * down
            parts.append(
                f'<rect x="{left + (start - first) * across:.1f}" y="{y:.1f}" '
                f'width="{max((end - start) * across, 1.5):.1f}" height="{down:.1f}" fill="{colour}"/>'
            )
        x = left + ((start + end) / 2 - first) * across
        y = top + _HEIGHT - (sum(free) / len(free) + 0.5) * down + 3.5
        parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="9" text-anchor="middle">{job + 1}</text>')
    return parts


if __name__ == "__main__":
    known = read_known(HOME)
    PAGE.write_text(page(known), encoding="utf-8")
    PICTURE.write_text(picture(known), encoding="utf-8")
