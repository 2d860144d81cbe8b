from . import (
    grid as grid,
    images as images,
    losses as losses,
    nets as nets,
    random as random,
    stats as stats,
    sweep as sweep,
    theory as theory,
)

__version__: str
