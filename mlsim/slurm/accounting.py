"""What the controller knows of its jobs, as sacct prints it: a trial cluster has no database for sacct."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

__all__ = ["as_sacct"]

_NOTHING: Mapping[str, int] = MappingProxyType({})
_UNKNOWN = ("", "(null)", "N/A", "Unknown")


def _name(text: str) -> str:
    return text.partition("(")[0]


_COLUMNS: dict[str, tuple[str, Callable[[str], str]]] = {
    "JobIDRaw": ("JobId", str),
    "Submit": ("SubmitTime", str),
    "Start": ("StartTime", str),
    "End": ("EndTime", str),
    "Elapsed": ("RunTime", str),
    "Timelimit": ("TimeLimit", str),
    "ReqCPUS": ("NumCPUs", str),
    "State": ("JobState", str),
    "User": ("UserId", _name),
    "Group": ("GroupId", _name),
    "Account": ("Account", str),
    "Partition": ("Partition", str),
    "QOS": ("QOS", str),
    "JobName": ("JobName", str),
    "NodeList": ("NodeList", str),
}
"""Columns of sacct, each with the field of scontrol and what is kept of it."""


def as_sacct(shown: str, released: Mapping[str, int] = _NOTHING) -> str:
    """Write what ``scontrol --oneliner show job`` printed in the form of ``sacct --parsable2``.

    Parameters
    ----------
    shown
        What it printed.
    released
        CPUs that jobs gave back: the controller knows those that they kept, and these are added.

    Examples
    --------
    >>> print(as_sacct("JobId=7 JobName=a UserId=ada(1000) JobState=RUNNING RunTime=00:00:02"))
    JobIDRaw|Submit|Start|End|Elapsed|Timelimit|ReqCPUS|State|User|Group|Account|Partition|QOS|JobName|NodeList
    7||||00:00:02|||RUNNING|ada|||||a|
    <BLANKLINE>
    """
    lines = ["|".join(_COLUMNS)]
    for line in shown.splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split())
        if "JobId" in fields:
            given = released.get(fields["JobId"], 0)
            if given:
                fields["NumCPUs"] = str(int(fields["NumCPUs"]) + given)
            lines.append("|".join(_cell(fields, *column) for column in _COLUMNS.values()))
    return "\n".join(lines) + "\n"


def _cell(fields: dict[str, str], field: str, kept: Callable[[str], str]) -> str:
    text = fields.get(field, "")
    return "" if text in _UNKNOWN else kept(text).replace("|", "_")
