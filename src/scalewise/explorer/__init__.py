"""The explorer: one page on which a network is changed by sliders and its prediction follows.

Python writes tables into the page, `model.js` computes from them what `predict` computes, `page.js` shows it, and
uPlot draws (``uplot/``, with its licence). The page fetches nothing.
"""

from scalewise.explorer._page import ACTIVATIONS as ACTIVATIONS
from scalewise.explorer._page import write_explorer as write_explorer
