"""What is in traces, what is wrong with them, other formats and parts; against records and planted faults."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import otf2
import polars as pl
import pytest
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.cosim.scenario_inputs import check_traceable
from mlsim.errors import InputError, OutputError
from mlsim.record import Records
from mlsim.record.otf2 import Selection, Service
from mlsim.scenario.words import TraceLevel
from mlsim.traces import anchor_of, convert, cut, opened, problems_of, survey
from mlsim.traces.trace_reader import Trace
from tests.record.builders import random_records, with_requests
from tests.record.loop_traces import HOW
from tests.record.traces import events_of, read_trace, written


@pytest.fixture(scope="module")
def records() -> Records:
    return random_records(8, jobs=40)


@pytest.fixture(scope="module")
def trace(records: Records, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trace")
    written(place, records, "chunks")
    return place


def said(*words: object) -> tuple[int, str]:
    """Call the command line; return its exit code, and what it says."""
    ended = CliRunner().invoke(app, ["trace", *map(str, words)])
    return ended.exit_code, ended.output + str(ended.exception or "")


def test_what_is_in_a_trace_is_what_the_records_say(records, trace):
    with opened(anchor_of(trace)) as reader:
        found = survey(reader, anchor_of(trace))
    read = read_trace(trace)
    assert found.total == sum(read.counts.values())
    assert found.bytes == sum(file.stat().st_size for file in trace.rglob("*") if file.is_file())
    assert found.sent == len(records.messages.kind)
    assert found.sent_bytes == sum(message.length for message in read.sends)
    chunks = records.chunks
    assert found.regions["chunk"].visits == len(chunks.job)
    assert found.regions["chunk"].inclusive == pytest.approx(float((chunks.end - chunks.start).sum()))
    held = records.occupancy
    per_job = np.bincount(held.job, (held.end - held.start) * held.count * held.cores)
    for job, seconds in enumerate(per_job.tolist()):
        names = [name for name in found.regions if name.split()[0] == f"J{records.jobs.job_id[job]}"]
        assert sum(found.regions[name].inclusive for name in names) == pytest.approx(seconds, abs=1e-6)
    assert "queue length" in found.metrics


def test_info_on_the_command_line(trace):
    code, text = said("info", trace)
    assert code == 0
    assert "1 METRIC" in text
    assert "chunk" in text
    code, text = said("info", trace / "traces.otf2", "--json")
    assert json.loads(text)["regions"]["chunk"]["visits"] > 0


def test_nothing_is_wrong_with_what_mlsim_writes(trace):
    with opened(anchor_of(trace)) as reader:
        assert list(problems_of(reader)) == []
    assert said("check", trace)[0] == 0


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    """Return a trace with a fault of each kind."""
    with otf2.writer.open(str(tmp_path / "bad"), timer_resolution=1000) as writer:
        tree = writer.definitions.system_tree_node("machine", parent=None)
        group = writer.definitions.location_group("node", system_tree_parent=tree)
        rows = [writer.definitions.location(f"core {n}", group=group) for n in range(2)]
        outer, inner = (writer.definitions.region(name) for name in ("outer", "inner"))
        members = writer.definitions.group(
            "all", group_type=otf2.GroupType.COMM_LOCATIONS, paradigm=otf2.Paradigm.MPI, members=rows
        )
        comm = writer.definitions.comm("world", group=members)
        first, second = map(writer.event_writer_from_location, rows)
        first.enter(1000, outer)
        first.enter(2000, inner)
        first.leave(3000, outer)
        first.mpi_send(4000, 1, comm, 7, 80)
        first.mpi_send(5000, 1, comm, 8, 80)
        second.leave(1500, inner)
        second.mpi_recv(3500, 0, comm, 7, 80)
        second.enter(6000, outer)
    return tmp_path / "bad"


def test_every_fault_is_found_and_placed(faulty):
    code, text = said("check", faulty)
    assert code == 1
    for words in (
        "core 0 of node, at 2.000000000 s: 'outer' is left, where 'inner' was entered last",
        "core 1 of node, at 0.500000000 s: 'inner' is left and was not entered",
        "core 1 of node, at 5.000000000 s: 'outer' is entered and never left",
        "from rank 0 to rank 1 is received before it is sent, by 0.500000000 s",
        "at 4.000000000 s: the send of a message from rank 0 to rank 1 (communicator world, tag 8) has no",
    ):
        assert words in text, words


def test_chrome_events_are_the_spans_messages_and_metrics(records, trace, tmp_path):
    with opened(anchor_of(trace)) as reader:
        convert(reader, tmp_path / "a.json")
    with opened(anchor_of(trace)) as reader:
        convert(reader, tmp_path / "a.json.gz")
    text = (tmp_path / "a.json").read_text()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()).decode() == text
    events = json.loads(text)["traceEvents"]
    read = read_trace(trace)
    spans = Counter((e["tid"], e["ts"], round(e["ts"] + e["dur"], 3)) for e in events if e["ph"] == "X")
    expected = Counter((s.location, round(s.begin / 1e3, 3), round(s.end / 1e3, 3)) for s in read.spans)
    assert spans == expected
    flows = {side: {e["id"]: e for e in events if e["ph"] == side} for side in "sf"}
    assert flows["s"].keys() == flows["f"].keys()
    assert len(flows["s"]) == len(records.messages.kind)
    times = sorted((e["ts"], flows["f"][key]["ts"]) for key, e in flows["s"].items())
    sent, received = records.messages.sent, records.messages.received
    assert times == sorted(zip(np.round(sent * 1e6, 3), np.round(received * 1e6, 3), strict=True))
    assert len([e for e in events if e["ph"] == "C"]) == sum(len(values) for _, values in read.metrics)


def test_parquet_has_a_row_an_event(trace, tmp_path):
    code, text = said("convert", trace, "-o", tmp_path / "a.parquet")
    assert code == 0, text
    frame = pl.read_parquet(tmp_path / "a.parquet")
    read = read_trace(trace)
    assert dict(frame.group_by("location").len().iter_rows()) == read.counts
    assert frame.filter(pl.col("event") == "MpiSend")["bytes"].sum() == sum(m.length for m in read.sends)
    code, text = said("convert", trace, "-o", tmp_path / "a.txt")
    assert "no format for this name; allowed: .json" in text


@pytest.mark.parametrize(("begin", "end"), [(None, None), (20.0, None), (None, 60.0), (20.0, 60.0)])
def test_a_part_has_what_lies_in_its_span(trace, tmp_path, begin, end):
    whole = read_trace(trace)
    last = whole.definitions.clock_properties.trace_length
    low, high = round((begin or 0) * 1e9), last if end is None else round(end * 1e9)
    with opened(anchor_of(trace)) as reader:
        cut(reader, tmp_path / "part", begin=begin, end=end, jobs=[])
    with opened(anchor_of(tmp_path / "part")) as reader:
        assert list(problems_of(reader)) == []
        offset = reader.definitions.clock_properties.global_offset
    with otf2.reader.open(str(tmp_path / "part" / "traces.otf2")) as reader:
        found = Counter(
            (location._ref, event.time, type(event).__name__, event.region.canonical_name)
            for location, event in reader.events
            if type(event).__name__ in ("Enter", "Leave")
        )
    expected = Counter()
    for span in whole.spans:
        if span.end < low or span.begin > high:
            continue
        if span.begin == span.end or (span.end > low or span.begin >= low):
            expected[span.location, max(span.begin, low), "Enter", span.region] += 1
            expected[span.location, min(span.end, high), "Leave", span.region] += 1
    assert offset >= low
    # What ends at the very moment at which the part begins is there without length.
    edge = [key for key in (found - expected) | (expected - found) if key[1] not in (low, high)]
    assert edge == []


def test_a_part_with_some_jobs_has_these_alone(records, trace, tmp_path):
    some = [str(job) for job in records.jobs.job_id[np.isfinite(records.jobs.start_time)][:3]]
    code, text = said("cut", trace, "--jobs", ",".join(some), "-o", tmp_path / "part")
    assert code == 0, text
    part, whole = read_trace_of(tmp_path / "part"), read_trace(trace)
    assert {span.region for span in part.of_jobs()} == set(some)
    kept = [s for s in whole.spans if s.region in some or s.outer in some]
    assert Counter((s.location, s.begin, s.end) for s in part.spans) == Counter(
        (s.location, s.begin, s.end) for s in kept
    )
    assert {str(m.attributes["job id"]) for m in part.sends} <= set(some)


@pytest.mark.parametrize(
    ("level", "model"),
    [("jobs", "cca"), ("nodes", "cca"), ("chunks", "cca"), *(("messages", model) for model in HOW)],
)
@pytest.mark.parametrize(
    ("span", "some"), [((5.0, 15.0), False), ((0.0, 12.5), True), ((12.2, 1e9), False), ((0.0, 1e9), True)]
)
@pytest.mark.parametrize("seed", [8, 9])
def test_a_part_of_a_run_is_that_part_of_its_trace(seed, level, model, span, some, tmp_path):
    records = with_requests(random_records(seed, jobs=40), seed)
    service = Service(calculation=0.003, delay=0.001, message_bytes=16, **HOW[model])
    begin, end = span
    jobs = records.jobs.job_id[np.isfinite(records.jobs.start_time)][::2].tolist() if some else []
    written(tmp_path / "whole", records, level, service=service)
    written(tmp_path / "part", records, level, selection=Selection(begin, end, jobs), service=service)
    with opened(anchor_of(tmp_path / "whole")) as reader:
        cut(reader, tmp_path / "cut", begin=begin, end=end, jobs=[str(job) for job in jobs])
    assert events_of(tmp_path / "part") == events_of(tmp_path / "cut")
    with opened(anchor_of(tmp_path / "part")) as reader:
        # Sides of messages are paired in order, which is wrong once one of them is missing.
        left = ("other side", "before it is sent", "complete")
        assert [problem for problem in problems_of(reader) if not any(word in problem for word in left)] == []
        assert reader.definitions.clock_properties.global_offset == round(begin * 1e9)


@pytest.mark.parametrize("level", ["chunks", "messages"])
def test_bounds_of_a_part_at_events_are_those_of_its_trace(level, records, tmp_path):
    records = with_requests(records, 8)
    written(tmp_path / "whole", records, level)
    chunks, held = records.chunks, records.occupancy
    times = [chunks.start[3], chunks.end[5], held.start[4], held.end[2], records.messages.sent[1]]
    for number, (begin, end) in enumerate((low, high) for low in times for high in times if low < high):
        written(tmp_path / f"part{number}", records, level, selection=Selection(begin, end))
        with opened(anchor_of(tmp_path / "whole")) as reader:
            cut(reader, tmp_path / f"cut{number}", begin=begin, end=end)
        assert events_of(tmp_path / f"part{number}") == events_of(tmp_path / f"cut{number}")


def test_a_part_after_the_end_of_a_run_is_refused(records, tmp_path):
    with pytest.raises(OutputError, match="the trace would be empty: its part begins at 100000000 s"):
        written(tmp_path / "part", records, "jobs", selection=Selection(1e8))


def read_trace_of(place: Path):
    """Read a part, whose clock may begin later than at 0."""
    with otf2.reader.open(str(place / "traces.otf2")) as reader:
        offset = reader.definitions.clock_properties.global_offset
    assert offset == 0, "jobs alone do not move the start: metrics begin at 0"
    with opened(place / "traces.otf2") as reader:
        assert list(problems_of(reader)) == []
    return read_trace(place)


def test_the_same_part_has_the_same_bytes(trace, tmp_path):
    for name in ("one", "two"):
        assert said("cut", trace, "--from", "10 s", "--to", "1 min", "-o", tmp_path / name)[0] == 0
    first, second = (
        {str(file.relative_to(tmp_path / name)): file.read_bytes() for file in (tmp_path / name).rglob("*.*")}
        for name in ("one", "two")
    )
    assert first == second


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cut", "TRACE", "-o", "part"], "nothing to cut; give --from, --to or --jobs"),
        (["cut", "TRACE", "--from", "3 m/s", "-o", "part"], "--from 3 m/s: "),
        (["cut", "TRACE", "--from", "9 s", "--to", "3 s", "-o", "part"], "ends at 3 s, before it begins"),
        (["info", "nowhere"], "there is no such file or directory"),
        (["info", "EMPTY"], "has no OTF2 trace; `output.trace: chunks`"),
    ],
)
def test_what_cannot_be(trace, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    places = {"TRACE": str(trace), "EMPTY": "empty"}
    code, text = said(*(places.get(word, word) for word in words))
    assert code != 0
    assert message in text
    assert not (tmp_path / "part").exists()


@pytest.mark.parametrize(
    "command", [["info"], ["check"], ["convert", "-o", "a.json"], ["cut", "--to", "1 h", "-o", "p"]]
)
@pytest.mark.parametrize("harm", ["cut short", "missing", "other version", "empty"])
def test_damage_is_told(trace, tmp_path, monkeypatch, command, harm):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "trace"
    shutil.copytree(trace, place)
    largest = max((place / "traces").glob("*.evt"), key=lambda file: file.stat().st_size)
    if harm == "cut short":
        largest.write_bytes(largest.read_bytes()[: largest.stat().st_size // 2])
    elif harm == "missing":
        (place / "traces.def").unlink()
    elif harm == "other version":
        anchor = bytearray((place / "traces.otf2").read_bytes())
        anchor[4:7] = b"\xff\xff\xff"
        (place / "traces.otf2").write_bytes(anchor)
    else:
        (place / "traces.otf2").write_bytes(b"")
    code, text = said(command[0], place, *command[1:])
    assert code != 0
    assert "cannot be read to its end" in text or "is damaged" in text
    assert not (tmp_path / "a.json").exists()
    assert not (tmp_path / "p").exists()


@pytest.mark.slow
def test_a_file_of_events_that_ends_anywhere_is_told(trace, tmp_path, monkeypatch):
    """The library reads a file that ends between two events without an error: four in a hundred lengths."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trace, tmp_path / "trace")
    largest = max((tmp_path / "trace" / "traces").glob("*.evt"), key=lambda file: file.stat().st_size)
    whole = largest.read_bytes()
    for length in range(len(whole) // 2 - 50, len(whole) // 2 + 50):
        largest.write_bytes(whole[:length])
        code, text = said("info", tmp_path / "trace")
        assert code != 0, length
        assert "cannot be read to its end" in text or "is damaged" in text


def test_jobs_to_show_that_the_workload_lacks_are_refused_before_the_run():
    block = SimpleNamespace(job_id=np.array([1, 2, 5]), submit_time=np.zeros(3), run_time=np.ones(3))
    workload: Any = SimpleNamespace(blocks=lambda: [block, block])
    for jobs, wrong in (((1, 5), None), ((5, 4, 3), 3)):
        output = SimpleNamespace(trace=TraceLevel.JOBS, trace_jobs=jobs)
        scenario: Any = SimpleNamespace(output=output, source="s.yaml")
        if wrong is None:
            check_traceable(scenario, workload)
            continue
        with pytest.raises(InputError, match=f"output.trace_jobs: the workload has no job {wrong}"):
            check_traceable(scenario, workload)


def test_very_many_locations_are_read_some_at_a_time(records, trace, tmp_path, monkeypatch):
    def results(place: Path) -> tuple:
        place.mkdir()
        anchor = anchor_of(trace)
        with opened(anchor) as reader:
            found = survey(reader, anchor)
        with opened(anchor) as reader:
            assert list(problems_of(reader)) == []
        for name in ("a.json", "a.parquet"):
            with opened(anchor) as reader:
                convert(reader, place / name)
        with opened(anchor) as reader:
            cut(reader, place / "part", begin=10.0, end=60.0, jobs=[])
        chrome = json.loads((place / "a.json").read_text())["traceEvents"]
        for event in chrome:
            event.pop("id", None)  # numbers of messages, in the order in which they are read
        rows = pl.read_parquet(place / "a.parquet")
        part = {str(f.relative_to(place)): f.read_bytes() for f in (place / "part").rglob("*.*")}
        times = {name: (t.visits, round(t.inclusive, 6)) for name, t in sorted(found.regions.items())}
        facts = dict(found.events), found.locations, found.sent_bytes, times
        return facts, sorted(map(repr, chrome)), sorted(map(repr, rows.iter_rows())), part

    at_once = results(tmp_path / "one")
    monkeypatch.setattr(Trace, "_MOST_LOCATIONS", 3)
    assert results(tmp_path / "two") == at_once


def test_a_part_with_some_jobs_has_their_rows_alone(records, trace, tmp_path):
    some = [str(job) for job in records.jobs.job_id[np.isfinite(records.jobs.start_time)][:1]]
    with opened(anchor_of(trace)) as reader:
        cut(reader, tmp_path / "cut", begin=None, end=None, jobs=some)
    written(tmp_path / "part", records, "chunks", selection=Selection(jobs=[int(job) for job in some]))
    rows = []
    for name in ("cut", "part"):
        with opened(anchor_of(tmp_path / name)) as reader:
            rows.append([(row._ref, row.name, row.group.name) for row in reader.definitions.locations])
        files = {int(file.stem) for file in (tmp_path / name / "traces").glob("*.evt")}
        assert files == {number for number, *_ in rows[-1]}
    assert rows[0] == rows[1]
    with opened(anchor_of(trace)) as reader:
        assert len(rows[0]) < len(list(reader.definitions.locations))
