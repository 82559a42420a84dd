"""Commands of the kernel library: ``python -m mlsim._jit build``, ``record`` and ``check``."""

import sys

from mlsim._jit.library_build import MANIFEST, build, manifest, record, recorded

USAGE = """Usage: python -m mlsim._jit COMMAND

build   compile all kernels of the manifest ahead of time, and link them to the library that a wheel ships
record  add the kernels that are compiled on disk (of a run of the tests, say) to the manifest
check   end with 1 if a kernel that is compiled on disk is not in the manifest
"""


def main(words: list[str]) -> int:
    """Execute a command; return the exit code."""
    if words == ["build"]:
        try:
            made = build()
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{made}: {len(manifest())} kernels, {made.stat().st_size / 1e6:.1f} MB")
        return 0
    if words not in (["record"], ["check"]):
        print(USAGE, file=sys.stderr)
        return 2
    if words == ["record"]:
        print(f"{MANIFEST}: {record()} kernels added")
        return 0
    missing = sorted(set(recorded()) - set(manifest()))
    for line in missing:
        print(f"not in the manifest: {line[:200]}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
