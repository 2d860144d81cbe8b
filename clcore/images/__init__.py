"""Images: where they come from, how they are read and augmented, what features are worth.

`load` and `folder` give an `ImageSet`; `batches` and `view` bring augmented views of it to the
device; `linear_probe`, `knn` and `ridge_probe` measure frozen features. The modules `digits` and
`photographs` hold images that need no download.
"""

from clcore._front import attach

_HOMES = {
    "image_sets": ("ImageSet", "load", "folder", "batches", "on_device"),
    "augmentations": ("Recipe", "RECIPES", "view"),
    "evaluation": ("Probe", "linear_probe", "knn"),
    "probes": ("ridge_probe",),
    "filter_variation": ("total_variation",),
    "": ("digits", "photographs"),
}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
