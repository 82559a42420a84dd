"""Pictures of a run, for papers and for a quick look."""

from mlsim.analysis.plots.gantt import gantt
from mlsim.analysis.plots.style import write_picture
from mlsim.analysis.plots.utilization import utilization_over_time
from mlsim.analysis.plots.write import draw_gantt, draw_utilization

__all__ = ["draw_gantt", "draw_utilization", "gantt", "utilization_over_time", "write_picture"]
