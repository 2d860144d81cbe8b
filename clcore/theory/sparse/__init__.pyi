from . import (
    linear_noncontrastive as linear_noncontrastive,
    mask_landscape as mask_landscape,
    proportional_update as proportional_update,
    sparse_coding as sparse_coding,
    srelu_dynamics as srelu_dynamics,
)
