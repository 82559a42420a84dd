"""Pictures of a run, for papers and for a quick look."""

from mlsim.analysis.plots.bars import Panel, bars
from mlsim.analysis.plots.chunks import Curve, chunk_curve, chunk_sizes
from mlsim.analysis.plots.costs import iteration_costs
from mlsim.analysis.plots.gantt import gantt
from mlsim.analysis.plots.lines import LinePanel, Look, lines
from mlsim.analysis.plots.pes import pe_timeline
from mlsim.analysis.plots.style import write_picture
from mlsim.analysis.plots.utilization import utilization_over_time
from mlsim.analysis.plots.write import draw_chunk_sizes, draw_gantt, draw_pes, draw_utilization

__all__ = [
    "Curve",
    "LinePanel",
    "Look",
    "Panel",
    "bars",
    "chunk_curve",
    "chunk_sizes",
    "draw_chunk_sizes",
    "draw_gantt",
    "draw_pes",
    "draw_utilization",
    "gantt",
    "iteration_costs",
    "lines",
    "pe_timeline",
    "utilization_over_time",
    "write_picture",
]
