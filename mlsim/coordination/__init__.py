"""Messages and forecasts between the batch level and the application level."""

from mlsim.coordination.forecast import (
    ApplicationSimulator,
    Disturbance,
    Forecast,
    Kill,
    NodeFailed,
    NodeSet,
)
from mlsim.coordination.log import MessageLog, Sent
from mlsim.coordination.messages import (
    Answer,
    JobCompleted,
    Message,
    NodeIdle,
    NodeReturned,
    ReleaseAccepted,
    ReleaseRejected,
    ReleaseRequest,
)

__all__ = [
    "Answer",
    "ApplicationSimulator",
    "Disturbance",
    "Forecast",
    "JobCompleted",
    "Kill",
    "Message",
    "MessageLog",
    "NodeFailed",
    "NodeIdle",
    "NodeReturned",
    "NodeSet",
    "ReleaseAccepted",
    "ReleaseRejected",
    "ReleaseRequest",
    "Sent",
]
