"""What is fuzzed: for each room, a case from random numbers, and the command that reads it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import ClassVar

from tools.fuzzing.inputs import ACCOUNTING, LOOP, RIGID, SCENARIOS, STUDIES, make_run
from tools.fuzzing.mutate import mutated, nasty_value
from tools.fuzzing.room import Arguments, Draw, Room
from tools.fuzzing.sealed import Sealed

__all__ = ["ROOMS", "Room"]

_MANIFEST = "manifest.json"


class _Files(Room):
    """Mutated files.

    Parameters
    ----------
    name
        Of the case's file.
    seeds
        Give the valid contents, once the supports are there.
    commands
        One of them reads the file.
    text
        Whether the file is one of words.
    """

    def __init__(
        self,
        name: str,
        seeds: Callable[[Path], Sequence[bytes]],
        commands: Sequence[str],
        *,
        text: bool = True,
    ) -> None:
        self._name, self._make, self._commands, self._text = name, seeds, commands, text
        self._seeds: Sequence[bytes] = ()

    def prepare(self, directory: Path) -> None:
        super().prepare(directory)
        self._seeds = self._make(directory)

    def controls(self, directory: Path) -> Iterator[Arguments]:
        for seed in self._seeds:
            for command in dict.fromkeys(self._commands):
                (directory / self._name).write_bytes(seed)
                yield command.split()

    def case(self, directory: Path, draw: Draw) -> Arguments:
        seed = self._seeds[int(draw.integers(len(self._seeds)))]
        (directory / self._name).write_bytes(mutated(seed, draw, text=self._text))
        return self._commands[int(draw.integers(len(self._commands)))].split()


class _Sets(Room):
    """``--set`` of nasty values at keys that there are, or nearly."""

    _commands = ("check rigid.yaml", "check cosim.yaml", "loop loop.yaml --json")

    def prepare(self, directory: Path) -> None:
        super().prepare(directory)
        (directory / "cosim.yaml").write_text(SCENARIOS[1])
        self._keys = sorted(_keys_of(directory))

    def controls(self, directory: Path) -> Iterator[Arguments]:  # noqa: ARG002  (they are there)
        return (command.split() for command in self._commands)

    def case(self, directory: Path, draw: Draw) -> Arguments:  # noqa: ARG002  (there is no file to write)
        arguments = self._commands[int(draw.integers(len(self._commands)))].split()
        for _ in range(int(draw.integers(1, 4))):
            key = self._keys[int(draw.integers(len(self._keys)))]
            text = (
                f"{key}={nasty_value(draw) if draw.integers(3) else _PLAIN[int(draw.integers(len(_PLAIN)))]}"
            )
            if draw.integers(4) == 0:
                text = mutated(text.encode(), draw, text=True).decode("utf-8", "replace")
            arguments += ["--set", text.replace("\0", "")]
        return arguments


_PLAIN = (
    "2",
    "3",
    "0.5",
    "1.5",
    "on",
    "off",
    "1 s",
    "2 min",
    "1 us",
    "8 GB",
    "10 Gbit/s",
    "SAF",
    "easy",
    "0-1",
)
"""Values that are right at some keys."""


def _keys_of(directory: Path) -> set[str]:
    """Return the dotted keys of all scenarios and of the schema."""
    from mlsim.scenario import Scenario, dump, loads

    keys = {key for section in Scenario.model_fields for key in (section, f"{section}.x")}

    def walk(value: object, key: str) -> None:
        children = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[call-overload]
        for name, child in children:
            here = f"{key}.{name}" if key else str(name)
            keys.add(here)
            if isinstance(child, dict | list):
                walk(child, here)

    from mlsim.scenario.scenario_text import parse_text

    for text in SCENARIOS:
        walk(parse_text(dump(loads(text, directory=directory)), "scenario").value, "")
    return keys


class _LoopOptions(Room):
    """``mlsim loop`` with mutated options, or with a mutated file."""

    _options: ClassVar = {
        "--pes": "2x4",
        "--speeds": "1x1,0.5x1",
        "--technique": "SS,GSS",
        "--model": "cca,dca",
        "--iterations": "200",
        "--profile": "normal",
        "--mean": "1ms",
        "--std": "1us",
        "--costs": "costs.csv",
        "--run-time": "10 s",
        "--min-chunk": "2",
        "--seed": "4",
        "--chunk-calculation": "1 us",
        "--injected-delay": "1 us",
        "--atomic-service": "100 ns",
        "--break-after": "4",
        "--latency": "1 us",
    }

    def controls(self, directory: Path) -> Iterator[Arguments]:  # noqa: ARG002  (it is there)
        yield ["loop", "--json", "loop.yaml"]
        with_mean = {key: self._options[key] for key in self._options if key not in ("--costs", "--run-time")}
        yield ["loop", "--json", *(f"{key}={value}" for key, value in with_mean.items())]
        yield ["loop", "--json", "--pes=2x4", "--iterations=200", "--profile=job", "--run-time=10 s"]

    def case(self, directory: Path, draw: Draw) -> Arguments:
        arguments = ["loop", "--json"]
        (directory / "case.yaml").write_text(LOOP)
        if draw.integers(2):
            (directory / "case.yaml").write_bytes(mutated(LOOP.encode(), draw, text=True))
            return [*arguments, "case.yaml"]
        if draw.integers(2):
            arguments.append("case.yaml")
        chosen = draw.choice(list(self._options), int(draw.integers(1, 6)), replace=False).tolist()
        wrong = chosen[int(draw.integers(len(chosen)))]
        for option in chosen:
            value = self._options[option]
            if option == wrong:
                value = nasty_value(draw) if draw.integers(2) else _changed(value, draw)
            arguments.append(f"{option}={value}".replace("\0", ""))
        return arguments


def _changed(value: str, draw: Draw) -> str:
    return mutated(value.encode(), draw, text=True).decode("utf-8", "replace")


class _Runs(Room):
    """Run directories with one damaged file; the manifest tells it, is forged, or is missing.

    For forged tables somebody has vouched: what makes Polars end its process is not looked for in them.
    """

    _commands = ("metrics one", "metrics one --by user", "compare one other", "check one")

    def prepare(self, directory: Path) -> None:
        super().prepare(directory)
        for name, policy in (("one", "SAF"), ("other", "FCFS")):
            make_run(directory, name, policy)
        self._names = sorted(path.name for path in (directory / "one").iterdir() if path.is_file())

    def controls(self, directory: Path) -> Iterator[Arguments]:  # noqa: ARG002  (they are there)
        return (command.split() for command in self._commands)

    def case(self, directory: Path, draw: Draw) -> Arguments:
        path = directory / "one" / self._names[int(draw.integers(len(self._names)))]
        content = mutated(path.read_bytes(), draw, text=path.suffix != ".parquet")
        path.unlink()  # it may be shared with other cases
        path.write_bytes(content)
        way = int(draw.integers(3))
        if way == 1 and path.name != _MANIFEST and path.suffix != ".parquet":
            _forge(directory / "one")
        elif way == 2:  # a run of an mlsim that wrote none
            (directory / "one" / _MANIFEST).unlink()
        return self._commands[int(draw.integers(len(self._commands)))].split()


def _forge(run: Path) -> None:
    """Write the manifest of a damaged run anew, so that what reads the files meets the damage."""
    from mlsim.experiment.manifest import DamagedError, write_manifest

    with suppress(DamagedError):  # what is no summary has no checksum
        write_manifest(run)


class _RcaLines(Room):
    """Lines that somebody sends to the agent: none may do more than be refused."""

    _secret = b"s" * 32

    def prepare(self, directory: Path) -> None:
        from mlsim.mpi.rca.wire import NodeIdle, pack

        super().prepare(directory)
        self._line = pack(NodeIdle("17", "node3", 3, 16, "loop", 1.7e9), self._secret)

    def controls(self, directory: Path) -> Iterator[Arguments]:
        for line in (self._line, self._signed(json.loads(self._line.split(b" ", 3)[3]))):
            (directory / "line").write_bytes(line)
            yield ["line"]

    def case(self, directory: Path, draw: Draw) -> Arguments:
        line = self._line
        if draw.integers(2):  # signed by somebody who has the secret, and sends nonsense
            body = json.loads(line.split(b" ", 3)[3])
            keys = sorted(body)
            body[keys[int(draw.integers(len(keys)))]] = _plain(draw)
            line = self._signed(body)
        else:
            line = mutated(line, draw, text=bool(draw.integers(2)))
        (directory / "line").write_bytes(line)
        return ["line"]

    def _signed(self, body: dict[str, object]) -> bytes:
        import hashlib
        import hmac

        text = json.dumps(body).encode()
        mac = hmac.new(self._secret, text, hashlib.sha256).hexdigest()
        return b"rca2 hmac %s %s" % (mac.encode(), text)

    def execute(self, arguments: Arguments) -> None:
        from mlsim.errors import InputError
        from mlsim.mpi.rca.wire import RefusedError, unpack

        try:
            unpack(Path(arguments[0]).read_bytes(), self._secret)
        except RefusedError as error:
            raise InputError(str(error)) from error


def _plain(draw: Draw) -> object:
    values = (
        None,
        True,
        [],
        {},
        "",
        "x\n",
        -1,
        2**31,
        10**400,
        1e308,
        float("nan"),
        [[]] * 9,
        nasty_value(draw),
    )
    return values[int(draw.integers(len(values)))]


def _dump(directory: Path) -> Sequence[bytes]:
    """Return instances as ``mlsim cp dump`` writes them."""
    from mlsim.cli.main import app

    (directory / "cp.yaml").write_text(
        RIGID.replace("policy: SAF\n  backfill: easy", "dispatcher: pcp21")
        .replace("  power_cap: [[0 s, 1500 W], [200 s, 1400 W]]\n", "  cp: {time_limit: 20 ms}\n")
        .replace(", power: {idle: 90 W, busy: 200 W}", "")
        .replace(", power: {idle: 80 W, busy: 300 W}", "")
    )
    with redirect_stdout(io.StringIO()):
        app(
            ["cp", "dump", str(directory / "cp.yaml"), "--out", str(directory / "all.jsonl"), "--most", "3"],
            standalone_mode=False,
        )
    content = (directory / "all.jsonl").read_bytes()
    (directory / "all.jsonl").unlink()
    return [_with_cap(line) + b"\n" for line in content.splitlines()]


def _with_cap(line: bytes) -> bytes:
    """Return an instance with a cap on power: each node adds more than the one before."""
    data = json.loads(line)
    of_node = [50_000_000 + 5_000_000 * node for node in range(len(data["capacity"]))]
    counts = [1] * len(data["queued"]["job_id"])
    data["power"] = {"free": 120_000_000, "of_node": of_node, "counts": counts, "held": [], "remaining": []}
    return json.dumps(data).encode()


def _read(name: str) -> Callable[[Path], Sequence[bytes]]:
    return lambda directory: [(directory / name).read_bytes()]


def _workload(name: str, suffix: str, *, text: bool) -> Room:
    commands = (
        f"workload convert case.{suffix} out.csv --speed 1GFLOP/s --bandwidth 1Gbit/s",
        f"workload convert case.{suffix} out.swf --lenient --speed 1GFLOP/s --bandwidth 1Gbit/s",
        f"workload convert case.{suffix} out.parquet --clean --from {name} --speed 1GFLOP/s "
        "--bandwidth 1Gbit/s",
        f"check rigid.yaml --set workload.path=case.{suffix}",
    )
    return _Files(f"case.{suffix}", _read(f"jobs.{suffix}"), commands, text=text)


ROOMS: dict[str, Room] = {
    "scenario": _Files(
        "case.yaml",
        lambda _: [text.encode() for text in SCENARIOS],
        ["check case.yaml"] * 7 + ["run case.yaml --quiet --out out"],
    ),
    "set": _Sets(),
    "swf": _workload("swf", "swf", text=True),
    "csv": _workload("csv", "csv", text=True),
    "json": _workload("batsim", "json", text=True),
    "parquet": _workload("parquet", "parquet", text=False),
    "accounting": _Files(
        "case.txt",
        lambda _: [text.encode() for text in ACCOUNTING],
        (
            "workload convert case.txt out.csv",
            "workload convert case.txt out.swf --lenient",
            "workload convert case.txt out.parquet --clean --lenient",
            "check rigid.yaml --set workload.path=case.txt --set workload.dependencies=on",
        ),
    ),
    "npy": _Files(
        "case.npy",
        _read("costs.npy"),
        ["loop --json --pes 2x2 --profile file --costs case.npy --technique SS"],
        text=False,
    ),
    "loop": _LoopOptions(),
    "study": _Files(
        "study.yaml", lambda _: [text.encode() for text in STUDIES], ["study study.yaml --quiet --out out"]
    ),
    "runs": _Runs(),
    "sealed": Sealed(),
    "cp": _Files("case.jsonl", _dump, ["cp replay case.jsonl -d pcp21 --set time_limit=20ms --json"]),
    "rca": _RcaLines(),
}
