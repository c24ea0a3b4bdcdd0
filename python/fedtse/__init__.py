"""Cities and fleets estimate the traffic on every street together, without showing each other their data.

>>> import fedtse, tempfile
>>> folder = tempfile.mkdtemp() + "/corridor"
>>> made = fedtse.simulate(folder, minutes=60)
>>> made = fedtse.features(folder, rates=[20])
>>> rows = fedtse.train(folder, method="scale-up", rate=20, target="raw")
>>> sorted(rows[0]["score"])
['density', 'flow']

Long calls run without Python's lock, show a bar if tqdm is installed (or call a function of yours:
`progress=`), and stop on Ctrl-C. Errors are `fedtse.FedtseError`s with the words of the command line.
"""

from ._fedtse import BuiltIn, Network, __version__
from .api import audit, estimate, features, reproduce, simulate, train
from .errors import FedtseError, FedtseInternalError, FedtseOSError, FedtseValueError
from .sub_models import Guest, Host, SubModel
from .tables import Estimates, Features, FleetFeatures

__all__ = [
    "BuiltIn",
    "Estimates",
    "Features",
    "FedtseError",
    "FedtseInternalError",
    "FedtseOSError",
    "FedtseValueError",
    "FleetFeatures",
    "Guest",
    "Host",
    "Network",
    "SubModel",
    "__version__",
    "audit",
    "estimate",
    "features",
    "reproduce",
    "simulate",
    "train",
]
