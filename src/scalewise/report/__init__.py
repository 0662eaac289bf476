"""The report: pictures and words. It reads results and computes nothing physical."""

from scalewise._extras import require

require("matplotlib", "jinja2", "markupsafe", "zarr", for_="A report", extra="report")

from scalewise.report._learning import LearnedPanels as LearnedPanels
from scalewise.report._learning_page import training_record as training_record
from scalewise.report._learning_page import write_training_report as write_training_report
from scalewise.report._page import result_record as result_record
from scalewise.report._page import write_report as write_report
from scalewise.report._results import Convolution as Convolution
from scalewise.report._results import Results as Results
