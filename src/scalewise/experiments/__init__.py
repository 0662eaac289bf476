"""The claims of the sources, measured on real networks: one file each, `run(config)` and `figure`."""

from scalewise._extras import require

require("matplotlib", for_="An experiment", extra="report")
