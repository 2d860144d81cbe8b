"""Networks.

Small ones are functions of a dict of weights, which `clcore.sweep` can stack over runs:
`mlp`, `receptive_field` (fields with filters of their own) and, for images of 8 x 8 pixels, the
module `encoders`. `ResNet` and `Projector` are modules of torch.
"""

from clcore._front import attach

_HOMES = {
    "networks": ("activate", "mlp_init", "mlp", "receptive_field_init", "receptive_field", "embed"),
    "resnet": ("ResNet", "Projector"),
    "": ("encoders",),
}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
