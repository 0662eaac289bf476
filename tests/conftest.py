"""Settings for the whole test run: the same examples every time, unless asked for others."""

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None)  # HYPOTHESIS_PROFILE=search looks for new ones
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
