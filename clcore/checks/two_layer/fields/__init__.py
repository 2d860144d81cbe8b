"""Filters of receptive fields before one latent: gradients, what linear ones learn (nl Sec. 4)."""
