"""One self-contained page on runs: what ``mlsim report`` writes.

``run_data.py`` packs what the page draws of a run, ``loops.py`` its loops, ``transfers.py`` who got which
nodes that others gave back; ``parts.py`` are the parts that need no script, ``figures.py`` its still
pictures, ``page.html``, ``page.css`` and ``page.js`` the page, ``whole.py`` puts them together.

The Gantt chart is drawn by the page's own code: no plotting library is as fluid. With 10^5 rectangles in
headless Chromium without a GPU three frames of a zoom took 50 to 99 ms, and 500 to 960 ms with Bokeh 3.9 on
its canvas (2.7 s and more with its WebGL); with 5 x 10^5, 83 to 100 ms against 4 to 7 s. Plotly has no
rectangles but shapes, an SVG element each. The still pictures are matplotlib's, as everywhere.
"""

from mlsim.analysis.page.page_data import PageLoops, wanted_jobs
from mlsim.analysis.page.report_page import PageRun, PageStudy, page_text

__all__ = ["PageLoops", "PageRun", "PageStudy", "page_text", "wanted_jobs"]
