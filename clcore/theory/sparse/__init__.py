"""Masked sparse codes: landscapes and dynamics (ncl Secs. 4, 5, App. C, D)."""

from clcore._front import attach

_HOMES = {
    "": (
        "linear_noncontrastive",
        "mask_landscape",
        "proportional_update",
        "sparse_coding",
        "srelu_dynamics",
    )
}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
