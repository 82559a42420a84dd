"""The manifest of a run: whatever is changed in its directory is found."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

import mlsim
from mlsim.errors import InputError
from mlsim.experiment.manifest import MANIFEST, verify, write_manifest
from mlsim.experiment.stored_runs import read_run
from tests.cli.conftest import JOBS, SMALL
from tests.effort import examples


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("manifest")
    (directory / "small.csv").write_text(JOBS)
    (directory / "small.yaml").write_text(SMALL)
    mlsim.run(
        directory / "small.yaml", {"output.pictures": False, "output.passes": True}, out=directory / "run"
    )
    return directory / "run"


@pytest.fixture
def run(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def flip(path: Path, generator: random.Random) -> None:
    data = bytearray(path.read_bytes())
    place = generator.randrange(8 * len(data))
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)


def test_a_run_is_whole(run):
    found = verify(run)
    files = [path for path in run.rglob("*") if path.is_file()]
    assert found.whole == len(files) - 1, "all but the manifest"
    assert (found.damaged, found.missing, found.foreign) == ((), (), ())
    assert read_run(run).note == ""


READ = (
    "jobs.parquet",
    "nodes.parquet",
    "occupancy.parquet",
    "passes.parquet",
    "scenario.yaml",
    "summary.json",
)
CHECKED = (*READ, "chunks.parquet", "versions.json", "trace/traces.otf2", "trace/traces/1.evt")


@pytest.mark.parametrize("name", [*CHECKED, MANIFEST])
def test_a_flipped_bit_is_found_in_any_file(whole, run, name):
    generator = random.Random(name)
    for _ in range(examples(20)):
        shutil.copy(whole / name, run / name)
        flip(run / name, generator)
        if name == MANIFEST:
            with pytest.raises(InputError, match=r"manifest\.json: is damaged"):
                verify(run)
        else:
            assert verify(run).damaged == (name,)
        if name in (*READ, MANIFEST):
            with pytest.raises(InputError, match=f"{name}: is damaged"):
                read_run(run)
        else:
            read_run(run)


def test_missing_and_foreign_files_are_found(run):
    (run / "messages.parquet").unlink()
    shutil.copy(run / "jobs.parquet", run / "outages.parquet")
    (run / "notes.txt").write_text("mine")
    found = verify(run)
    assert (found.missing, found.foreign) == (("messages.parquet",), ("notes.txt", "outages.parquet"))
    with pytest.raises(InputError, match=r"messages\.parquet: is missing"):
        read_run(run)
    (run / "messages.parquet").write_bytes(b"")
    shutil.copy(run / "jobs.parquet", run / "attempts.parquet")
    with pytest.raises(InputError, match=r"attempts\.parquet: is not of this run"):
        read_run(run)


def test_what_would_not_end_to_be_read_is_damaged(run):
    for name, target in (("jobs.parquet", "/dev/zero"), ("loops.parquet", "/dev/full")):
        (run / name).unlink()
        (run / name).symlink_to(target)
    (run / "versions.json").unlink()
    os.mkfifo(run / "versions.json")
    assert verify(run).damaged == ("jobs.parquet", "loops.parquet", "versions.json")


@pytest.mark.parametrize("content", ["[" * 100_000, "{}", '{"files": {"../x": "0"}}', "", "null", "\x00"])
def test_a_manifest_that_is_none_is_damaged(run, content):
    (run / MANIFEST).write_text(content)
    with pytest.raises(InputError, match=r"manifest\.json: is damaged"):
        read_run(run)


def test_a_summary_of_another_run_is_found(run):
    other = json.loads((run / "summary.json").read_text())
    other["jobs"]["completed"] = 3
    from mlsim.experiment.manifest import write_summary

    write_summary(run / "summary.json", other)
    assert verify(run).damaged == ("summary.json",)


def test_runs_of_before_manifests_are_read_with_a_note(run):
    (run / MANIFEST).unlink()
    with pytest.raises(InputError, match=r"manifest\.json: is missing"):
        read_run(run)
    summary = json.loads((run / "summary.json").read_text())
    del summary["self"]["checksum"]
    (run / "summary.json").write_text(json.dumps(summary))
    assert "there is no manifest.json" in read_run(run).note
    notes = mlsim.compare(
        run, mlsim.run(run.parent / "run" / "scenario.yaml", {"workload.path": str(_log(run))})
    ).notes
    assert notes[0].endswith("so its files were not verified.")


def _log(run: Path) -> Path:
    path = run.parent / "small.csv"
    path.write_text(JOBS)
    return path


def test_a_directory_with_a_manifest_of_its_own_stands_for_its_files(tmp_path):
    for name in ("a", "a/b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    write_manifest(tmp_path / "a" / "b")
    write_manifest(tmp_path / "a")
    assert list(json.loads((tmp_path / "a" / MANIFEST).read_text())["files"]) == ["b/manifest.json", "file"]
    assert verify(tmp_path / "a").whole == 3
    (tmp_path / "a" / "b" / "file").write_text("other")
    assert verify(tmp_path / "a").damaged == ("b/file",)
