from . import (
    deep_linear as deep_linear,
    one_layer as one_layer,
    operator as operator,
    relu as relu,
    sparse as sparse,
    trees as trees,
    two_layer as two_layer,
)
