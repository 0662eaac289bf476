"""Working names of this room for the other rooms of scalewise; users have no need of them."""

# Where the cells of a sweep are computed: here, in processes of this machine, or by a cluster of the user's.
from scalewise.sweeps._engines import connected as connected

# Whether a function is the one that a store was begun with: by what it does, not by what it is called.
from scalewise.sweeps._fingerprint import fingerprint as fingerprint

# How far a long run is: a bar on the terminal, a callable of the user's, or nothing.
from scalewise.sweeps._progress import Reporter as Reporter

# A run on disk or in an object store: it survives being killed at any moment, and goes on where it was.
from scalewise.sweeps._store import Store as Store
from scalewise.sweeps._store import kept as kept
from scalewise.sweeps._store import opened as opened
from scalewise.sweeps._store import resumable as resumable
from scalewise.sweeps._store import within as within
