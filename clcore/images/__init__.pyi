from .image_sets import (
    ImageSet as ImageSet,
    load as load,
    folder as folder,
    batches as batches,
    on_device as on_device,
)
from .augmentations import Recipe as Recipe, RECIPES as RECIPES, view as view
from .evaluation import Probe as Probe, linear_probe as linear_probe, knn as knn
from .probes import ridge_probe as ridge_probe
from .filter_variation import total_variation as total_variation
from . import digits as digits, photographs as photographs
