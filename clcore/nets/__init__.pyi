from .networks import (
    activate as activate,
    mlp_init as mlp_init,
    mlp as mlp,
    receptive_field_init as receptive_field_init,
    receptive_field as receptive_field,
    embed as embed,
)
from .resnet import ResNet as ResNet, Projector as Projector
from . import encoders as encoders
