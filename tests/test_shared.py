"""What runs of a study have in common is read once a process, bounded, and the same as read anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mlsim._runtime import shared_cache
from mlsim._runtime.shared_cache import forget, shared, sharing
from mlsim.application import CostProfiles
from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.scenario.application_section import IterationsConfig
from mlsim.scenario.costs_section import CostsConfig
from mlsim.workload import JobBlock, log_source, open_workload

HEAD = "job_id,submit_time,run_time,walltime,processors,user\n"


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list of the logs that are read, which grows."""
    found: list[Path] = []

    class Counted(log_source.LogReader):
        def blocks(self):
            found.append(self.path)
            return super().blocks()

    monkeypatch.setattr(log_source, "LogReader", Counted)
    return found


def ids(path: Path, processors: int = 4, **values: object) -> list[int]:
    config = WorkloadConfig.model_validate({"path": str(path), **values})
    return JobBlock.concatenate(list(open_workload(config, path, processors).blocks())).job_id.tolist()


def log_of(path: Path, *jobs: str) -> Path:
    path.write_text(HEAD + "".join(f"{job}\n" for job in jobs))
    return path


def test_a_log_is_read_once_for_all_selections(tmp_path: Path, read: list[Path]) -> None:
    path = log_of(tmp_path / "log.csv", "1,0,5,5,1,7", "2,604800,5,5,2,8", "3,604801,5,5,1,7")
    with sharing():
        assert ids(path, select={"weeks": 1}) == [1]
        assert ids(path, select={"weeks": 2}) == [2, 3]
        assert ids(path, select={"user": 7}) == [1, 3]
        with pytest.raises(InputError, match="none is left"):
            ids(path, select={"weeks": 3})
    assert len(read) == 1


@pytest.mark.parametrize(
    "other", [{"cleaning": {"oversize": "drop"}}, {"lenient": True}, {"columns": ["user_name"]}]
)
def test_what_changes_the_jobs_is_another_log(tmp_path: Path, read: list[Path], other: dict) -> None:
    path = log_of(tmp_path / "log.csv", "1,0,5,5,1,7", "2,1,5,5,9,8")
    path.write_text(path.read_text().replace("user\n", "user,user_name\n").replace(",7\n", ",7,a\n"))
    path.write_text(path.read_text().replace(",8\n", ",8,b\n"))
    with sharing():
        before = ids(path)
        again = ids(path, **other)
        assert len(read) == 2
        ids(path, 16, **other)
        assert len(read) == 3
    forget()
    assert (ids(path), ids(path, **other)) == (before, again)


def test_a_log_that_has_changed_is_read_again(tmp_path: Path) -> None:
    path = log_of(tmp_path / "log.csv", "1,0,5,5,1,7")
    before = os.stat(path)
    with sharing():
        assert ids(path) == [1]
        log_of(path, "2,0,5,5,1,7")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert ids(path) == [2]


def test_nothing_is_kept_where_nobody_shares(tmp_path: Path, read: list[Path]) -> None:
    path = log_of(tmp_path / "log.csv", "1,0,5,5,1,7")
    assert ids(path) == ids(path) == [1]
    assert len(read) == 2
    assert not shared_cache._kept


def test_a_long_log_is_not_kept_and_the_same(
    tmp_path: Path, read: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlsim.workload import Field, write_swf

    monkeypatch.setattr(log_source, "HELD_JOBS", 2)
    monkeypatch.setattr(log_source, "SHARED_JOBS", 3)
    path, n = tmp_path / "log.swf", 40_000
    one = dict.fromkeys((Field.REQUESTED_PROCESSORS, Field.RUN_TIME), [1.0] * n)
    write_swf(path, {}, one | {Field.JOB_ID: range(n), Field.SUBMIT_TIME: range(n)})
    with sharing():
        assert ids(path, select={"window": {"start": 30_000, "end": 30_003}}) == [30_000, 30_001, 30_002]
        assert not shared_cache._kept
    assert len(read) == 2


def test_what_was_not_used_for_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_cache, "MOST_BYTES", 10)
    made: list[str] = []

    def kept(key: str, size: int = 4) -> str:
        return shared(key, lambda: (made.append(key) or key, size))

    with sharing():
        for key in ("a", "b", "a", "c", "a", "b", "large"):
            assert kept(key, 11 if key == "large" else 4) == key
        assert made == ["a", "b", "c", "b", "large"]
        kept("a")
        kept("b")
        assert made[-1] == "large"
        kept("large", 11)
        assert made.count("large") == 2


def costs(seed: int, **values: object) -> np.ndarray:
    config = CostsConfig.model_validate(values)
    return CostProfiles(config, IterationsConfig(count=50), 2e9, seed).prefix(1, 2, 30.0)


def test_costs_are_computed_once_for_all_seeds_where_none_matters() -> None:
    with sharing():
        assert costs(1, profile="increasing", high=2) is costs(2, profile="increasing", high=2)
        assert costs(1, profile="increasing", high=2) is not costs(1, profile="increasing", high=3)
        drawn = [costs(seed, profile="exponential", mean=1) for seed in (1, 2, 1)]
    assert drawn[0] is drawn[2]
    for seed in (1, 2):
        np.testing.assert_array_equal(drawn[seed - 1], costs(seed, profile="exponential", mean=1))
    assert (drawn[0] != drawn[1]).any()


def test_a_file_of_costs_that_has_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "costs.csv"
    with sharing():
        path.write_text("1\n2\n")
        assert costs(1, profile="file", path=str(path)).tolist() == [0, 1, 3]
        path.write_text("1\n2\n4\n")
        assert costs(1, profile="file", path=str(path)).tolist() == [0, 1, 3, 7]
