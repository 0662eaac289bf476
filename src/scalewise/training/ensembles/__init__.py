"""Networks that are really trained, many at once: what `predict_training` is held against."""

from scalewise._extras import require

require("jax", "zarr", for_="Training ensembles (`scalewise.measure_training`)", extra="nets")

from scalewise.training.ensembles._measure import measure_training as measure_training
