"""What cannot be written, and records that contradict themselves."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mlsim.errors import MlsimError, OutputError
from mlsim.record import PEs, Records, empty
from mlsim.record.otf2 import Level, TraceOptions, write_otf2
from mlsim.record.table_blocks import rows_of
from tests.record.builders import random_records
from tests.record.traces import read_trace

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = {"scenario_name": "demo", "technique": "SS", "workload_name": "demo.swf"}


def write(
    directory: Path, records: Records, level: Level = "chunks", pes_per_node: int | None = None
) -> None:
    write_otf2(
        directory, records, TraceOptions(level, exclusive_nodes=False, pes_per_node=pes_per_node, **NAMES)
    )


def test_a_trace_is_not_overwritten(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, random_records(1))
    with pytest.raises(OutputError, match="has a trace in it already"):
        write(tmp_path, random_records(1))
    (tmp_path / "traces.otf2").unlink()
    with pytest.raises(OutputError, match="already exist"):
        write(tmp_path, random_records(1))
    assert capfd.readouterr().err == ""


def test_a_file_in_the_way_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file/below: this is not a directory"):
        write(tmp_path / "file" / "below", random_records(1))
    assert capfd.readouterr().err == ""


def test_a_directory_name_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not in UTF-8"):
        write(tmp_path / "\udcff", random_records(1))


LIMITED = """
import resource, signal, sys
from pathlib import Path
from mlsim.errors import OutputError
from mlsim.record.otf2 import TraceOptions, write_otf2
from tests.record.builders import random_records

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
records = random_records(3, jobs=400)
for limit in (10, 25, 200, 2000, 6000, 20000, 10**9):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    where = Path(sys.argv[1]) / str(limit)
    try:
        write_otf2(where, records, TraceOptions("chunks", exclusive_nodes=False, scenario_name="demo",
                                                technique="SS", workload_name="demo.swf"))
        said = "written"
    except OutputError as error:
        said = str(error).replace(str(where), "DIRECTORY")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(said)
"""


def test_files_that_cannot_grow_are_an_error(tmp_path: Path) -> None:
    """A limit on the size of files fails like a full disk, at whichever write meets it first."""
    command = [sys.executable, "-c", LIMITED, str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    *failed, last = done.stdout.splitlines()
    assert last == "written"
    assert len(failed) == 6
    assert all(
        said.startswith("cannot write the OTF2 trace in DIRECTORY: file is too large") for said in failed
    )
    assert "[OTF2]" not in done.stderr


MANY = """
import resource, sys
import numpy as np
from dataclasses import replace
from mlsim.record import Nodes
from mlsim.record.otf2 import TraceOptions, write_otf2
from tests.record.builders import random_records

resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
records = random_records(3, jobs=1)
nodes = Nodes([f"n{n}" for n in range(512)], ["g"] * 512, np.full(512, 8), np.ones(512))
held = records.occupancy
columns = {name: getattr(held, name) for name in held.__dataclass_fields__}
held = replace(held, **{name: values[:1] for name, values in columns.items() if values is not None})
held = replace(held, node=np.zeros_like(held.node), count=np.full_like(held.count, 512),
               cores=np.full_like(held.cores, 8))
records = replace(records, nodes=nodes, occupancy=held)
info = write_otf2(sys.argv[1], records, TraceOptions("jobs", exclusive_nodes=False, rows="cores",
                  scenario_name="demo", technique="SS", workload_name="demo.swf"))
print(info.locations)
"""


def test_thousands_of_cores_need_few_open_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MANY, str(tmp_path)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "4098\n"
    assert len(list((tmp_path / "traces").glob("*.evt"))) == 4098


def chunks_changed(records: Records, **columns: np.ndarray) -> Records:
    return replace(records, chunks=replace(records.chunks, **columns))


def test_a_chunk_outside_of_its_job_is_an_error(tmp_path: Path) -> None:
    records = random_records(5)
    late = records.chunks.end.copy()
    late[-1] += 5.0
    with pytest.raises(MlsimError, match=r"a chunk of job \d+ on PE \d+"):
        write(tmp_path, chunks_changed(records, end=late))


def test_rounding_errors_of_chunks_are_cut_off(tmp_path: Path) -> None:
    records = random_records(5)
    write(tmp_path, chunks_changed(records, end=records.chunks.end + 3e-8))
    assert len(read_trace(tmp_path).nested("chunk")) == len(records.chunks.job)


def test_a_pe_without_a_core_is_an_error(tmp_path: Path) -> None:
    records = random_records(5)
    pe = records.chunks.pe.copy()
    pe[0] = 99
    with pytest.raises(MlsimError, match=r"PE 99, but it has cores for \d+ PEs"):
        write(tmp_path, chunks_changed(records, pe=pe))


def test_pes_may_use_some_of_the_cores_of_a_node(tmp_path: Path) -> None:
    records = random_records(7, jobs=1)
    assert int(records.occupancy.cores.max()) > 1
    nodes = np.unique(records.occupancy.node)
    assert records.occupancy.count.max() == 1
    first = np.array([int(np.flatnonzero(records.chunks.pe >= 0)[0])])
    moved = replace(rows_of(records.chunks, first), pe=np.array([len(nodes) - 1], np.int32))
    pes = empty(PEs)
    write(tmp_path, replace(records, chunks=moved, pes=pes), pes_per_node=1)
    (span,) = read_trace(tmp_path).nested("chunk")
    before = int(records.nodes.cores[: nodes[-1]].sum())
    assert span.location == 2 + before


def test_messages_that_overtake_are_an_error(tmp_path: Path) -> None:
    records = random_records(5, jobs=30)
    received = records.messages.received[::-1].copy()
    with pytest.raises(MlsimError, match="received before an earlier one"):
        write(tmp_path, replace(records, messages=replace(records.messages, received=received)))


def test_time_before_the_start_is_an_error(tmp_path: Path) -> None:
    records = random_records(5)
    start = records.jobs.submit_time - 1.0
    with pytest.raises(MlsimError, match="before the scenario's start"):
        write(tmp_path, replace(records, jobs=replace(records.jobs, submit_time=start)))
