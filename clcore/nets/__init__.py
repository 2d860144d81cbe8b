"""Networks.

Small ones are functions of a dict of weights, which `clcore.sweep` can stack over runs:
`mlp`, `receptive_field` (fields with separate filters) and, for images of 8 x 8 pixels, the
module `encoders`. `ResNet` and `Projector` are modules of torch.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
