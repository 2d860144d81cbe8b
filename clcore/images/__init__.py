"""Images: their sources, reading and augmenting them, and evaluating features.

`load` and `folder` give an `ImageSet`; `batches` and `view` bring augmented views of it to the
device; `linear_probe`, `knn` and `ridge_probe` measure frozen features. The modules `digits` and
`photographs` hold images that need no download.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
