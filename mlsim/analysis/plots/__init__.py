"""Pictures of a run, for papers and for a quick look."""

from mlsim.analysis.plots.chart_style import write_picture
from mlsim.analysis.plots.gantt_plot import gantt
from mlsim.analysis.plots.loop_plots import Curve, chunk_curve, chunk_sizes, iteration_costs, pe_timeline
from mlsim.analysis.plots.panel_plots import LinePanel, Look, Panel, bars, lines
from mlsim.analysis.plots.utilization_plot import utilization_over_time

__all__ = [
    "Curve",
    "LinePanel",
    "Look",
    "Panel",
    "bars",
    "chunk_curve",
    "chunk_sizes",
    "gantt",
    "iteration_costs",
    "lines",
    "pe_timeline",
    "utilization_over_time",
    "write_picture",
]
