"""A health report of a model before training: what the theory foresees, what is measured, and what is wrong."""

from scalewise.signals._findings import Finding as Finding
from scalewise.signals._findings import findings as findings
from scalewise.signals._seen import Drawn as Drawn
from scalewise.signals._seen import Joined as Joined
from scalewise.signals._seen import Looks as Looks
from scalewise.signals._seen import Seen as Seen
from scalewise.signals._seen import Units as Units
from scalewise.signals._seen import over_seeds as over_seeds
from scalewise.signals._signals import Signals as Signals
from scalewise.signals._spread import spread_of_outputs as spread_of_outputs
from scalewise.signals._theory import Foreseen as Foreseen
from scalewise.signals._theory import foreseen as foreseen
from scalewise.signals._told import told_of as told_of
