"""Many training runs as one tensor, each as it would be alone.

`train` takes the functions of ONE run and a list of configurations; `Result` is what comes back,
`Stopped` what is raised when the time that was given is over. The projections bring weights back to
norm 1 after a step.
"""

from clcore._front import attach

_HOMES = {
    "engine": ("train", "Result"),
    "checkpoint": ("Stopped",),
    "optim": ("unit_norm", "unit_rows", "unit_columns", "unit_filters", "unit_frobenius"),
}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
