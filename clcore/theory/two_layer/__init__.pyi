from . import field_latent as field_latent, modulation as modulation, two_layer as two_layer
