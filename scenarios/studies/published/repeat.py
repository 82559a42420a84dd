"""Schedules and run times that other simulators published, repeated from their files.

``python scenarios/studies/published/repeat.py --list`` prints the commands that fetch the files, with their
checksums; the script itself has no network. ``repeat.py DIRECTORY`` checks the files in it, simulates each
row, compares job by job, and prints a table, which ``--out`` also writes as CSV.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

import mlsim

HERE = Path(__file__).parent
RAW = "https://raw.githubusercontent.com"
MIRA = f"{RAW}/EPCCed/mira-cirrus-elastisim/938f4d05e3f0096794007c5c23b0440401e2c015"
LANL = f"{RAW}/hpc/simulator/6e18d17e3fa707911c9ebf8f5fd1ad5c97ab19c4/basefiles/tests"
EVALYS = f"{RAW}/oar-team/evalys/1a1d812ac85183b1ce9e278157e2af90027edb2e/examples/batsim_outputs/medium_late"
BATSIM = f"{RAW}/oar-team/batsim/ba7ea85fa20e81415e2f52290b56120192504553/workloads"
EXACT = 1e-6  # s: times are written with six decimals
LATENCY = 1e-4  # s: Batsim adds 13 us of latency to tasks that communicate


@dataclass(frozen=True)
class Row:
    """A published result: files by name (where from, and SHA-256), and how it is repeated."""

    name: str
    source: str
    rule: str
    compared: str  # what is equal
    files: dict[str, tuple[str, str]]
    repeat: Callable[[Path, Path], pl.DataFrame]  # files, a directory to write to -> job, theirs, ours
    within: float = EXACT
    directory: str = ""  # of its files; its name if empty

    def place(self, files: Path) -> Path:
        """Return the directory of its files."""
        return files / (self.directory or self.name)


def _simulated(
    scenario: str, workload: Path, directory: Path, more: Mapping[str, object] | None = None
) -> pl.DataFrame:
    """Run a scenario of this directory with another workload, and more changes; return its jobs."""
    changes = {"workload.path": str(workload.absolute()), **(more or {})}
    return mlsim.run(HERE / scenario, changes, out=directory / workload.stem).jobs


def _elastisim(files: Path, directory: Path) -> pl.DataFrame:
    ours = _simulated("cirrus.yaml", files / "jobs.json", directory)
    theirs = pl.read_csv(files / "job_statistics.csv", infer_schema_length=None)
    theirs = theirs.select(job="ID", theirs=pl.col("Start Time").cast(pl.Float64))
    return theirs.join(ours.select(job="job_id", ours="start_time"), on="job", how="left")


def _lanl(files: Path, directory: Path) -> pl.DataFrame:
    theirs = pl.read_csv(files / "post_out_jobs.csv", infer_schema_length=None)
    workload = directory / "jobs.csv"
    theirs.select(
        job_id="job_id",
        submit_time="submission_time",
        run_time="total_execution_time",
        processors="requested_number_of_resources",
        walltime="requested_time",
    ).write_csv(workload)
    ours = _simulated("lanl.yaml", workload, directory)
    zero = pl.col("starting_time") - pl.col("submission_time").min()
    return theirs.select(job="job_id", theirs=zero).join(
        ours.select(job="job_id", ours="start_time"), on="job", how="left"
    )


def nodes_of(text: str) -> frozenset[int]:
    """Return the nodes of a text such as ``0-3 7``."""
    found: set[int] = set()
    for part in text.split():
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _batsched(
    files: Path, directory: Path, scenario: str = "batsched.yaml", nodes: bool = False, **keys: object
) -> pl.DataFrame:
    """Compare with a file of jobs that Batsim wrote; ``nodes``: a job on others counts as different."""
    rows = pl.read_csv(files / "out_jobs.csv", infer_schema_length=None)
    if "purpose" in rows.columns:
        held = rows.filter(pl.col("purpose") != "job")
        drains = [
            {"nodes": nodes, "start": begin, "end": end, "announced": True}
            for begin, end, nodes in held.select("starting_time", "finish_time", "allocated_resources").rows()
        ]
        keys.setdefault("platform.drains", drains)
        rows = rows.filter(pl.col("purpose") == "job")
    theirs = rows.sort("submission_time", "job_id")
    workload = directory / "jobs.csv"
    theirs.select(
        job_id="job_id",
        submit_time="submission_time",
        run_time="execution_time",
        processors="requested_number_of_resources",
        walltime="requested_time",
    ).write_csv(workload)
    result = mlsim.run(
        HERE / scenario, {"workload.path": str(workload.absolute()), **keys}, out=directory / "run"
    )
    ours = result.jobs.rename({"job_id": "job", "start_time": "ours"})
    pairs = theirs.select(
        job="job_id", theirs="starting_time", their_energy="consumed_energy", text="allocated_resources"
    ).join(ours, on="job", how="left")
    if not nodes:
        return pairs
    held_by: dict[int, set[int]] = {}
    stays = result.records.occupancy
    for row, first, count in zip(stays.job.tolist(), stays.node.tolist(), stays.count.tolist(), strict=True):
        held_by.setdefault(result.records.jobs.job_id[row], set()).update(range(first, first + count))
    same = [
        nodes_of(str(text)) == held_by.get(job, set()) for job, text in pairs.select("job", "text").rows()
    ]
    return pairs.with_columns(ours=pl.when(pl.Series(same)).then("ours"))


def _energy(files: Path, directory: Path) -> pl.DataFrame:
    """Compare the energies (J) of Batsim's jobs."""
    pairs = _batsched(files, directory, **{"batch.backfill": "easy", "batch.easy": "easy_bf"})
    return pairs.select("job", theirs="their_energy", ours="energy")


def _batsim(files: Path, directory: Path) -> pl.DataFrame:
    """Compare run times with those that Batsim's own tests expect: at most the walltime."""
    found = []
    for path in sorted(files.glob("test_*.json")):
        content = json.loads(path.read_text())
        ours = _simulated("batsim.yaml", path, directory)
        took = dict(zip(ours["job_id_name"].cast(pl.String), ours["run_time"], strict=True))
        for job in content["jobs"]:
            expected = content["profiles"][job["profile"]].get("expected_execution_time")
            if expected is not None:
                limit = min(float(expected), float(job.get("walltime", float("inf"))))
                found.append((f"{path.stem} {job['id']}", limit, took[job["id"]]))
    return pl.DataFrame(found, schema=["job", "theirs", "ours"], orient="row")


def _mira(directory: str, jobs: str, model: str, statistics: str) -> dict[str, tuple[str, str]]:
    data = f"{MIRA}/{directory}/data"
    return {
        "jobs.json": (f"{data}/input/2024_Q1_CPU-jobs.json", jobs),
        "busywait_model.json": (f"{data}/input/busywait_model.json", model),
        "job_statistics.csv": (f"{data}/output/job_statistics.csv", statistics),
    }


_GRIZZLY = {
    "out_jobs.csv": (
        f"{LANL}/bare_metal/data/test_if_works/grizzly_resv_1/out_jobs.csv",
        "d703e405a304a305ab1ee3fee4afca3e3b1ff1f5ad123f7c60f9e66b97e55507",
    )
}
_EASY = {
    "out_jobs.csv": (
        f"{EVALYS}/easy/out_jobs.csv",
        "463b0422fe03147f4150046c905726591a897742c04a2e86ddba7747a4f9bcd5",
    )
}
_CONSERVATIVE = {
    "out_jobs.csv": (
        f"{EVALYS}/conservative/out_jobs.csv",
        "44cdef20f751b2e0287ba993b9d080ad492406521544693864ef1fa55848e8f2",
    )
}
_NAMED_EASY = {"batch.backfill": "easy", "batch.easy": "easy_bf"}
_NAMED_CONSERVATIVE = {"batch.backfill": "conservative", "batch.compression": "conservative_bf"}
_MODEL = "e0d45ce1780b652ce784c010c22254077eb97dfed91cfab47e88328ab31b14d7"
ROWS = (
    Row(
        "cirrus",
        "ElastiSim, EPCC's Cirrus, jobs of a quarter",
        "FCFS",
        "starts",
        _mira(
            "cirrus-cpu-simple-rigid",
            "0167a6442718c44d965eb44a9a27f34cd3088ba2fb87e9d00be134884736614f",
            _MODEL,
            "f563680e91684d4871c7d734cf778faaa551711d4f94e1dba55aef243c1198a1",
        ),
        _elastisim,
    ),
    Row(
        "cirrus-archer2",
        "ElastiSim, the same with jobs of ARCHER2",
        "FCFS",
        "starts",
        _mira(
            "cirrus-cpu-rigid-archer2-rigid",
            "5455395df0727e30d2c7a1decc9c6383d802e62a436423aaf77912247d5c43ae",
            _MODEL,
            "085dfb0be6c6321ae9810583968eedb2fc487e24ac471ea2cac6a082e6d2876d",
        ),
        _elastisim,
    ),
    Row(
        "lanl-easy",
        "LANL's Batsim, its test of synthetic jobs",
        "EASY",
        "starts",
        {
            "post_out_jobs.csv": (
                f"{LANL}/expected_results/success/post_out_jobs.csv",
                "d96723e14ff6eb28180092324371e1904732b74ac519a12f928435e88623f311",
            )
        },
        _lanl,
    ),
    Row(
        "lanl-conservative",
        "LANL's Batsim, its Grizzly with reservations",
        "conservative_bf",
        "starts and nodes",
        _GRIZZLY,
        partial(_batsched, scenario="grizzly.yaml", nodes=True, **_NAMED_CONSERVATIVE),
    ),
    Row(
        "lanl-standard",
        "the same, under conservative as in the literature",
        "conservative",
        "starts",
        _GRIZZLY,
        partial(_batsched, scenario="grizzly.yaml", **{"batch.backfill": "conservative"}),
        directory="lanl-conservative",
    ),
    Row(
        "lanl-numbers",
        "the same, without the reservations",
        "conservative",
        "starts",
        _GRIZZLY,
        partial(
            _batsched, scenario="grizzly.yaml", **{"batch.backfill": "conservative", "platform.drains": []}
        ),
        directory="lanl-conservative",
    ),
    Row(
        "batsched-easy",
        "Batsim, an example of evalys",
        "easy_bf",
        "starts and nodes",
        _EASY,
        partial(_batsched, nodes=True, **_NAMED_EASY),
    ),
    Row(
        "batsched-conservative",
        "Batsim, the same jobs",
        "conservative_bf",
        "starts and nodes",
        _CONSERVATIVE,
        partial(_batsched, nodes=True, **_NAMED_CONSERVATIVE),
    ),
    Row(
        "batsched-energy",
        "Batsim, energy of the jobs of batsched-easy",
        "easy_bf",
        "energies",
        _EASY,
        _energy,
        directory="batsched-easy",
    ),
    Row(
        "batsim",
        "Batsim 5, run times that its tests expect",
        "none",
        "run times",
        {
            name: (f"{BATSIM}/{name}", digest)
            for name, digest in (
                (
                    "test_compo_sequence_delay.json",
                    "3af4ca941e44492a3a44033496a064295916a3d389b9f75ae12572849f59fa78",
                ),
                (
                    "test_compo_sequence_ptaskcomp.json",
                    "50b5d6ecc2a31c1d36902d5bdb09c7c88b1cbb778ef2657a95cd8a22688d39f1",
                ),
                ("test_homo_ptasks.json", "3120b24c32713613a5eed424854e2583172386b74b9615f1a363cfaa7c10f63e"),
                ("test_ptasks.json", "7869393347b0a2720365320be753e8fd0c1fc39c16f30752166304b80a7df9f8"),
                (
                    "test_smpi_compute_only.json",
                    "f24231f112de3f1b4e1e8cd1ff8209444a441903e3e1ac86552bfcb7153f614a",
                ),
                (
                    "smpi/compute_only/traces.txt",
                    "b63c3534b0a5c012f02785d9ce590b6ab6f1c4a5af2d95d052f0777ac820220d",
                ),
                (
                    "smpi/compute_only/actions0.txt",
                    "a825ad1bd84559569f41acd48837142224717b344e80afb6f0e33ddec7a742a0",
                ),
                (
                    "smpi/compute_only/actions1.txt",
                    "7975dd851b3892b91260a61bd07dc6b6eeff98a05c683d51e5e634db42cb0835",
                ),
            )
        },
        _batsim,
        LATENCY,
    ),
)


def fetching(directory: str = "published") -> str:
    """Return the commands that fetch all files, and check them."""
    lines = [f"mkdir -p {directory} && cd {directory}"]
    sums = []
    for row in ROWS:
        for name, (url, digest) in ({} if row.directory else row.files).items():
            lines.append(f"curl --fail --silent --show-error --create-dirs --output {row.name}/{name} {url}")
            sums.append(f"{digest}  {row.name}/{name}")
    return "\n".join([*lines, "sha256sum --check --quiet <<'END'", *sums, "END"])


def missing(row: Row, directory: Path) -> str:
    """Return what is wrong with the files of a row; empty if nothing is."""
    for name, (_, digest) in row.files.items():
        path = row.place(directory) / name
        if not path.is_file():
            return f"{path} is not there"
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            return f"{path} is another version than the one that was compared"
    return ""


def repeated(row: Row, directory: Path) -> dict[str, object]:
    """Repeat a row; return its line of the table, with the names of the first jobs that differ."""
    with tempfile.TemporaryDirectory() as place:
        pairs = row.repeat(row.place(directory), Path(place))
    off = (pairs["theirs"] - pairs["ours"]).abs().fill_null(float("inf"))
    equal = off <= row.within
    return {
        "row": row.name,
        "source": row.source,
        "rule": row.rule,
        "compared": row.compared,
        "jobs": pairs.height,
        "equal": int(equal.sum()),
        "largest_difference": off.max(),
        "different": ", ".join(str(job) for job in pairs.filter(~equal)["job"].head(5)),
    }


def main(words: list[str] | None = None) -> int:
    """Run the command line; return 1 if a row could not be repeated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("directory", nargs="?", type=Path, help="the directory with the files")
    parser.add_argument("--list", action="store_true", help="print the commands that fetch the files")
    parser.add_argument("--only", metavar="ROW", choices=[row.name for row in ROWS], help="one row")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table as CSV")
    options = parser.parse_args(words)
    if options.list or options.directory is None:
        print(fetching())
        return 0
    lines, code = [], 0
    for row in ROWS:
        if options.only not in (None, row.name):
            continue
        if wrong := missing(row, options.directory):
            print(f"{row.name}: skipped, {wrong}; see --list", file=sys.stderr)
            code = 1
            continue
        lines.append(repeated(row, options.directory))
        line = lines[-1]
        print(
            f"{row.name}: {line['equal']:,} of {line['jobs']:,} {row.compared} equal (largest difference ",
            end="",
        )
        print(f"{line['largest_difference']:.3g} s){'; ' if line['different'] else ''}{line['different']}")
    if options.out is not None and lines:
        pl.DataFrame(lines).write_csv(options.out)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
