"""One self-contained page on runs, which ``mlsim report`` writes.

``page_data.py`` packs the data of runs and loops; ``page.html`` and ``page.css`` are the page, with the
scripts ``page_kit.js`` (words, painting), ``page_timeline.js`` (charts over time) and ``page.js`` (a run);
``report_page.py`` writes the parts that need no script, and assembles all.

The Gantt chart is drawn by the page's own code: no plotting library is as fluid. With 10^5 rectangles in
headless Chromium without a GPU, three frames of a zoom took 50 to 99 ms, and 500 to 960 ms with Bokeh 3.9
on its canvas (2.7 s and more with its WebGL); with 5 x 10^5, 83 to 100 ms against 4 to 7 s. Plotly has
only shapes, an SVG element each. Still pictures are by Matplotlib, as everywhere.
"""

from mlsim.analysis.page.page_data import PageLoops, wanted_jobs
from mlsim.analysis.page.report_page import PageRun, PageStudy, page_text

__all__ = ["PageLoops", "PageRun", "PageStudy", "page_text", "wanted_jobs"]
