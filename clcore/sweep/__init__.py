"""Many training runs as one tensor, each as it would be alone.

`train` takes the functions of ONE run and a list of configurations; it returns a `Result`,
and raises `Stopped` when the given time is over. `cosine` is a schedule of learning rates.
The projections bring weights back to norm 1 after a step.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
