"""The metrics of a stored run in full, as tables, as JSON and as rows of a CSV file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlsim.experiment.stored import StoredRun
from mlsim.record.derived import TAU

if TYPE_CHECKING:
    import polars as pl

__all__ = ["RunMetrics", "measure_run", "summary_of"]


@dataclass(frozen=True)
class RunMetrics:
    """The metrics of a run's records.

    Attributes
    ----------
    run
        The run.
    summary
        In the shape of ``summary.json``, computed anew from the records.
    by_class
        Jobs by class.
    pass_times
        Wall time of passes by queue length; empty where the run recorded none.
    by, groups
        What else jobs were asked to be grouped by, and the groups; None and None for nothing.
    """

    run: StoredRun
    summary: dict[str, Any]
    by_class: pl.DataFrame
    pass_times: pl.DataFrame
    by: str | None
    groups: pl.DataFrame | None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values; keys are those of the summary and of the breakdowns."""
        from mlsim.analysis.summary import json_safe

        groups = {} if self.groups is None else {f"by_{self.by}": _nested_rows(self.groups)}
        plain: dict[str, Any] = json_safe(
            {
                "run": self.run.label,
                "directory": str(self.run.directory),
                **self.summary,
                "by_class": _nested_rows(self.by_class),
                **groups,
                "pass_time_by_queue_length": self.pass_times.to_dicts(),
            }
        )
        return plain

    def rows(self) -> pl.DataFrame:
        """Return one row for the run, or one a group, with the run's name first and dotted columns."""
        import polars as pl

        if self.groups is not None:
            return self.groups.select(pl.lit(self.run.label).alias("run"), pl.all())
        return pl.DataFrame([{"run": self.run.label, **dict(_flat(self.summary))}], infer_schema_length=None)


def summary_of(run: StoredRun, tau: float = TAU) -> dict[str, Any]:
    """Compute the summary of a run anew from its records.

    Parameters
    ----------
    run
        The run.
    tau
        The bound of bounded slowdowns, in seconds.

    Returns
    -------
    dict
        In the shape of ``summary.json``; what records do not hold (``self``, ``workload``) is as stored.
    """
    from mlsim.analysis import summarize

    stored = run.summary
    computed = summarize(
        run.records,
        scenario=stored.get("scenario", ""),
        seed=stored.get("seed", 0),
        technique=stored.get("technique"),
        predictor=stored.get("estimates", {}).get("predictor"),
        tau=tau,
        measured=stored.get("self", {}),
    )
    return {**stored, **computed}


def measure_run(run: StoredRun, by: str | None = None, tau: float = TAU) -> RunMetrics:
    """Compute all metrics of a run.

    Parameters
    ----------
    run
        The run.
    by
        What to group jobs by besides their class: one of :data:`mlsim.analysis.metrics.GROUPINGS`.
    tau
        The bound of bounded slowdowns, in seconds.
    """
    from mlsim.analysis.metrics import breakdown, pass_time_by_queue_length

    jobs, names = run.records.jobs, run.records.names.of
    by_class = breakdown(jobs, "class", tau)
    groups = by_class if by == "class" else None if by is None else breakdown(jobs, by, tau, names)
    passes = pass_time_by_queue_length(run.records.passes)
    return RunMetrics(run, summary_of(run, tau), by_class, passes, by, groups)


def _nested_rows(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows in which ``wait_time.mean`` is ``mean`` in ``wait_time``."""
    return [_nested(row.items()) for row in table.iter_rows(named=True)]


def _nested(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key, value in items:
        name, _, part = key.partition(".")
        if part:
            row.setdefault(name, {})[part] = value
        else:
            row[name] = value
    return row


def _flat(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted keys and plain values; lists are left out, as they do not fit in a row."""
    for name, child in value.items():
        key = f"{before}{name}"
        if isinstance(child, Mapping):
            yield from _flat(child, f"{key}.")
        elif not isinstance(child, list):
            yield key, child
