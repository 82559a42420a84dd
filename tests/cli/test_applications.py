"""Several applications on the command line: ``mlsim check``, ``loop`` and ``metrics``."""

from __future__ import annotations

import json

SEVERAL = """\
name: several
platform: {nodes: [{name: n, count: 4, cores: 4}]}
workload: {path: small.csv, mapping: packed}
batch: {on_overrun: extend}
applications:
  rigid: {model: rigid}
  a: {model: loop, costs: {profile: constant, mean: 1 s}, iterations: {count: 64}, technique: GSS}
  b: {model: loop, costs: {profile: constant, mean: 2 s}, iterations: {count: 32}, technique: SS}
assign:
  - {where: {processors: '>= 12'}, application: a}
  - {where: {job_id: 99}, application: b}
  - {default: rigid}
"""


def test_check_counts_jobs_and_unused_rules(mlsim, small):
    (small / "several.yaml").write_text(SEVERAL)
    done = mlsim("check", "several.yaml")
    assert (done.code, done.err) == (0, "")
    assert "applications, with their jobs: rigid 2, a 2, b 0" in done.out
    assert "assign.1 matches no job" in done.out
    facts = json.loads(mlsim("check", "several.yaml", "--json").out)
    assert facts["applications"] == {"rigid": 2, "a": 2, "b": 0}
    assert facts["unused_rules"] == ["assign.1"]


def test_check_names_keys_of_applications_with_their_lines(mlsim, small):
    (small / "several.yaml").write_text(SEVERAL.replace("technique: SS", "technique: SSS"))
    done = mlsim("check", "several.yaml")
    assert done.code == 2
    assert "several.yaml:8: applications.b.technique: 'SSS' is not known" in done.err
    (small / "several.yaml").write_text(SEVERAL)
    done = mlsim("check", "several.yaml", "--set", "application.technique=GSS")
    assert "--set application.technique: the scenario has several applications" in done.err
    done = mlsim("check", "several.yaml", "--set", "applications.c.technique=GSS")
    assert "there is no application 'c'" in done.err


def test_a_loop_alone_is_of_one_application(mlsim, small):
    (small / "several.yaml").write_text(SEVERAL)
    done = mlsim("loop", "several.yaml")
    assert done.code == 2
    assert "--set application=NAME, with a name of: a, b" in done.err
    facts = json.loads(mlsim("loop", "several.yaml", "--application", "b", "--json").out)
    assert [(loop["technique"], loop["iterations"]) for loop in facts["loops"]] == [("SS", 32)]
    facts = json.loads(
        mlsim("loop", "several.yaml", "--application", "b", "--technique", "GSS", "--json").out
    )
    assert [loop["technique"] for loop in facts["loops"]] == ["GSS"]


def test_metrics_are_by_application(mlsim, small):
    (small / "several.yaml").write_text(SEVERAL)
    assert mlsim("run", "several.yaml", "--quiet", "--set", "output.pictures=off", "--out", "run").code == 0
    done = mlsim("metrics", "run", "--by", "application")
    assert [line.split()[:2] for line in done.out.splitlines() if line.startswith(("a ", "rigid"))] == [
        ["a", "2"],
        ["rigid", "2"],
    ]
