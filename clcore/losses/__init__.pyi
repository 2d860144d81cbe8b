from .modules import InfoNCE as InfoNCE, ContrastiveLoss as ContrastiveLoss, SupCon as SupCon
from .infonce_family import (
    infonce as infonce,
    CONVENTIONS as CONVENTIONS,
    Convention as Convention,
    cross_entropy as cross_entropy,
)
from .labelled import supcon as supcon
from .processes import gather as gather
from .pairs import (
    Pair as Pair,
    LogDomain as LogDomain,
    infonce_pair as infonce_pair,
    mine_pair as mine_pair,
    triplet_pair as triplet_pair,
    soft_triplet_pair as soft_triplet_pair,
    tuplet_pair as tuplet_pair,
    lifted_pair as lifted_pair,
    modified_triplet_pair as modified_triplet_pair,
    linear_pair as linear_pair,
    table1 as table1,
)
from .contrast import (
    family_loss as family_loss,
    inter_distances as inter_distances,
    intra_distances as intra_distances,
    pairwise_importance as pairwise_importance,
    row_mass as row_mass,
    contrastive_covariance as contrastive_covariance,
    energy as energy,
)
from .minplayer import (
    cost as cost,
    entropy_weights as entropy_weights,
    inverse_weights as inverse_weights,
    square_weights as square_weights,
    direct_weights as direct_weights,
    variant_loss as variant_loss,
    VARIANTS as VARIANTS,
)
from .sources import (
    source_infonce as source_infonce,
    source_simclr as source_simclr,
    source_mine as source_mine,
    source_mine_per_sample as source_mine_per_sample,
    source_triplet as source_triplet,
    source_soft_triplet as source_soft_triplet,
    source_tuplet as source_tuplet,
    source_lifted as source_lifted,
    source_modified_triplet as source_modified_triplet,
    source_linear as source_linear,
)
