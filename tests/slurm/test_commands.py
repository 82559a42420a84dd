"""What the commands say where they cannot do what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlsim.cli.cluster import ClusterOptions, build_plugin, down, give_back, status, up
from mlsim.errors import InputError
from mlsim.slurm import slurm_programs


@pytest.fixture
def no_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have no program in sight but those that are put into the directory."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(slurm_programs, "_SYSTEM_PLACES", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def put(place: Path, name: str, text: str) -> None:
    (place / name).write_text(f"#!/bin/sh\n{text}\n")
    (place / name).chmod(0o700)


def test_without_slurm_it_says_what_to_install(no_programs: Path) -> None:
    with pytest.raises(InputError, match=r"slurmctld: not found; .*apt-get install slurmctld"):
        build_plugin()
    with pytest.raises(InputError, match="slurmctld: not found"):
        up(ClusterOptions(nodes=2, place=no_programs / "cluster"))
    assert not (no_programs / "cluster").exists()


def test_without_a_compiler_or_sources_it_says_so(no_programs: Path, tmp_path: Path) -> None:
    put(no_programs, "slurmctld", "echo slurm-wlm 99.11.3")
    with pytest.raises(InputError, match="no C compiler"):
        build_plugin()
    put(no_programs, "cc", "exit 1")
    with pytest.raises(InputError, match=r"Slurm 99\.11\.3 cannot be fetched, .*--source DIR"):
        build_plugin()
    with pytest.raises(InputError, match="no configure script"):
        build_plugin(source=tmp_path)
    (tmp_path / "configure").write_text("exit 0")
    (tmp_path / "META").write_text("Version: 99.11.4\n")
    with pytest.raises(InputError, match=r"not the source of Slurm 99\.11\.3"):
        build_plugin(source=tmp_path)


def test_a_plugin_that_is_built_is_taken_again(no_programs: Path) -> None:
    put(no_programs, "slurmctld", "echo slurm-wlm 99.11.3")
    put(no_programs, "cc", "exit 1")
    made = (
        no_programs
        / "cache"
        / "mlsim"
        / "slurm"
        / "99.11.3"
        / slurm_programs._digest_of_code()
        / slurm_programs.NAME
    )
    made.parent.mkdir(parents=True)
    made.write_bytes(b"built")
    assert slurm_programs.build_plugin() == made
    copy = slurm_programs.build_plugin(no_programs / "plugins")
    assert copy == no_programs / "plugins" / "slurmctld_rca.so"
    assert copy.read_bytes() == b"built"


def test_a_plugin_whose_sources_change_meanwhile_is_not_kept_as_theirs(
    no_programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "plugin.c").write_text("int before;\n")
    monkeypatch.setattr(slurm_programs, "_CODE", code)
    put(no_programs, "slurmctld", "echo slurm-wlm 99.11.3")
    put(no_programs, "sh", "exit 0")
    put(no_programs, "cc", f'for last; do :; done; echo built > "$last"; echo > {code}/plugin.c')
    (tmp_path / "configure").write_text("exit 0")
    (tmp_path / "META").write_text("Version: 99.11.3\n")
    with pytest.raises(InputError, match="were changed while it was compiled"):
        build_plugin(source=tmp_path)
    assert not list((no_programs / "cache").rglob("*.so"))
    assert slurm_programs.build_plugin(source=tmp_path).read_text() == "built\n"


def test_where_there_is_no_cluster(tmp_path: Path) -> None:
    for command in (status, down):
        with pytest.raises(InputError, match="no trial cluster there"):
            command(tmp_path)


SHOWN = "JobId=17 JobState=RUNNING BatchHost=n1 NodeList=n[1-3]"


@pytest.mark.parametrize(
    ("job", "node", "nodes", "reason"),
    [
        ("17;id", "n1", "n1", "not of Slurm"),
        ("17", "-n1", "n1", "not of Slurm"),
        ("17", "n9", "n1\nn2", "does not run on n9"),
        ("17", "n2", "n2", "last node"),
        ("17", "n1", "n1\nn2", "batch script runs on n1"),
    ],
)
def test_what_scontrol_is_not_asked_for(
    no_programs: Path, job: str, node: str, nodes: str, reason: str
) -> None:
    shown = f'case "$*" in *hostnames*) echo "{nodes}";; *show*) echo "{SHOWN}";; *) exit 1;; esac'
    put(no_programs, "scontrol", shown)
    with pytest.raises(InputError, match=reason):
        give_back(job, node)


def test_scontrol_keeps_the_other_nodes(no_programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(
        no_programs,
        "scontrol",
        f'case "$*" in *hostnames*) printf "n1\\nn2\\nn3\\n";; *show*) echo "{SHOWN}";; '
        f'*) echo "$*" > {no_programs}/asked;; esac',
    )
    give_back("17", "n2")
    assert (no_programs / "asked").read_text().strip() == "update JobId=17 NodeList=n1,n3"
    assert "job 17 keeps 2" in capsys.readouterr().out


def test_directories_whose_sockets_would_have_too_long_names_are_refused(tmp_path: Path) -> None:
    place = tmp_path / ("x" * 120)
    with pytest.raises(InputError, match=r"letters too long: slurmd makes sockets in it"):
        up(ClusterOptions(nodes=2, place=place))
    assert not place.exists()
