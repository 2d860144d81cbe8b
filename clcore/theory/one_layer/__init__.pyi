from . import (
    basins as basins,
    circle_landscape as circle_landscape,
    one_layer as one_layer,
    power_iteration as power_iteration,
    roughness as roughness,
)
