"""clcore: the mathematics, the experiments and the ledger behind the book.

- `losses`: contrastive losses, pairwise importance, contrastive covariance, the min player.
- `sweep`: many training runs as one tensor.
- `grid`: runs that outgrow one process, kept by address.
- `nets`: small networks as functions of their weights, and ResNet-18.
- `images`: data sets, augmentations on the device, evaluation of frozen features.
- `theory`: the objects of the papers' theorems, with exact moments.
- `random`: random numbers as a function of a key.
- `stats`: comparisons of runs.

`ledger`, `experiments`, `reference`, `checks` and `book` stand on these.
"""

from importlib.metadata import PackageNotFoundError, version

from lazy_loader import attach_stub

try:
    __version__ = version("clcore")
except PackageNotFoundError:  # a clone on the path, on a machine where nothing is installed
    __version__ = "unknown"
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
