"""The report: pictures and words. It reads results and computes nothing physical."""

from scalewise._extras import require

require("matplotlib", "jinja2", "markupsafe", "zarr", for_="A report", extra="report")

from scalewise.report._learning import Learned
from scalewise.report._learning_page import training_record, write_training_report
from scalewise.report._page import result_record, write_report
from scalewise.report._results import Results

__all__ = [
    "Learned",
    "Results",
    "result_record",
    "training_record",
    "write_report",
    "write_training_report",
]
