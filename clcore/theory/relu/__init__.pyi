from . import (
    binary_latent as binary_latent,
    orthogonal_mixture as orthogonal_mixture,
    relu_two_layer as relu_two_layer,
)
