"""The layers that networks are made of, one idea a file: frozen values that become nodes of a program."""

from scalewise.networks.layers._activate import Activate as Activate
from scalewise.networks.layers._aggregate import Aggregate as Aggregate
from scalewise.networks.layers._attention import Attention as Attention
from scalewise.networks.layers._dense import Conv as Conv
from scalewise.networks.layers._dense import ConvTranspose as ConvTranspose
from scalewise.networks.layers._dense import Dense as Dense
from scalewise.networks.layers._dense import Flatten as Flatten
from scalewise.networks.layers._norm import LayerNorm as LayerNorm
from scalewise.networks.layers._norm import RMSNorm as RMSNorm
from scalewise.networks.layers._parallel import Parallel as Parallel
from scalewise.networks.layers._pool import AvgPool as AvgPool
from scalewise.networks.layers._pool import GlobalAvgPool as GlobalAvgPool
from scalewise.networks.layers._pool import GlobalSumPool as GlobalSumPool
from scalewise.networks.layers._pool import MaxPool as MaxPool
from scalewise.networks.layers._pool import SumPool as SumPool
from scalewise.networks.layers._skip import Skip as Skip
