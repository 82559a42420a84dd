"""``mlsim check RUN --laws``: verdicts on schedules, also of a dispatcher of the user's own."""

from __future__ import annotations

from pathlib import Path

from mlsim.experiment.manifest import write_manifest

UNFAIR = """\
from mlsim.batch.view import Start


class Unfair:
    def dispatch(self, view):
        free = int(view.free.sum())
        for job in reversed(range(len(view.waiting))):
            units = int(view.waiting.units[job])
            if units <= free:
                free -= units
                yield Start(job)
"""

SCENARIO = """\
platform:
  nodes:
    - {name: n, count: 4, cores: 1}
workload: {path: jobs.csv, mapping: node}
batch: {dispatcher: "./unfair.py:Unfair"}
"""

JOBS = """\
job_id,submit_time,run_time,estimate,processors
1,0,50,50,3
2,1,60,60,4
3,2,90,90,1
"""


def test_a_dispatcher_of_ones_own_is_judged_by_the_promise_that_it_makes(mlsim, small: Path) -> None:
    (small / "own.yaml").write_text(SCENARIO)
    (small / "jobs.csv").write_text(JOBS)
    (small / "unfair.py").write_text(UNFAIR)
    assert mlsim("run", "own.yaml", "--out", "own", "--set", "output.pictures=off").code == 0
    good = mlsim("check", "own", "--laws")
    assert good.code == 0, good.err
    assert "  capacity: kept; 3 stays, cores, jobs at once of 4 nodes" in good.out
    assert "EASY's promise: not judged: backfill is not easy" in good.out
    bad = mlsim("check", "own", "--laws", "--promise", "easy")
    assert bad.code == 2
    assert "  EASY's promise: BROKEN, 1 breaches; 3 starts" in bad.out
    assert "    job 3 at 2 s: starts at 2 s on 1 units, expected until 92 s, and delays job 2" in bad.out
    assert "own: 1 law is broken" in bad.err


def test_only_runs_are_judged(mlsim) -> None:
    ended = mlsim("check", "small.yaml", "--laws")
    assert ended.code == 2
    assert "--laws judges runs; give the directory of one" in ended.err
    assert "is judged with --laws" in mlsim("check", "small.yaml", "--promise", "easy").err


def test_a_scenario_of_another_machine_judges_nothing(mlsim, small: Path) -> None:
    (small / "own.yaml").write_text(SCENARIO.replace('{dispatcher: "./unfair.py:Unfair"}', "{policy: FCFS}"))
    (small / "jobs.csv").write_text(JOBS)
    assert mlsim("run", "own.yaml", "--out", "own", "--set", "output.pictures=off").code == 0
    file = small / "own" / "scenario.yaml"
    file.write_text(file.read_text().replace("count: 4", "count: 3"))
    write_manifest(small / "own")
    done = mlsim("check", "own", "--laws")
    assert done.code == 2
    assert "own: 4 nodes in nodes.parquet, 3 in scenario.yaml: are they of one run?" in done.err
