"""Words of the section ``workload``."""

from __future__ import annotations

from mlsim.scenario.words.choice import Choice

__all__ = ["CleaningRule", "EstimateSource", "Mapping", "MemorySource", "WorkloadFormat"]


class WorkloadFormat(Choice):
    """How the file of jobs is written."""

    AUTO = "auto"
    SWF = "swf"
    CSV = "csv"
    PARQUET = "parquet"
    BATSIM = "batsim"


class Mapping(Choice):
    """What a processor of the log is on the machine: a core, a node, or a share of whole nodes."""

    CORE = "core"
    NODE = "node"
    PACKED = "packed"

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return what packed means: nodes are not shared."""
        return {"whole-nodes": "packed"}


class MemorySource(Choice):
    """Where the memory that a unit asks for comes from."""

    NONE = "none"
    REQUESTED = "requested"
    USED = "used"


class EstimateSource(Choice):
    """Where the run time that the dispatcher sees comes from."""

    REQUEST = "request"
    ACTUAL = "actual"

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return what the user asked, and an estimate without error."""
        return {"walltime": "request", "perfect": "actual"}


class CleaningRule(Choice):
    """What happens to a job that meets a cleaning rule."""

    KEEP = "keep"
    DROP = "drop"
    CLAMP = "clamp"
