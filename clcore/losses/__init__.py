"""Contrastive losses of two views, and what the papers derive from them.

Outputs for the first views of n samples are z, for the second views z2, both `[*b, n, d]`: leading
dimensions are batches, and all runs under `torch.func.vmap`. Losses of a training loop are
`InfoNCE` and `ContrastiveLoss`, modules for one batch `[n, d]`. As functions, for batches of
batches too, they are `infonce` and `family_loss`, with other defaults: the module has
`how="nt-xent"`, the function `how="acl"`; `ContrastiveLoss` is the mean over samples, `family_loss`
the sum. InfoNCE comes in many normalisations, which `CONVENTIONS` names. Sums are over samples, and
distances are squared and halved, unless a convention says otherwise.

Losses of float16 and bfloat16 outputs, and losses under autocast, are computed in float32 and have
that type; gradients have the type of the outputs. An output of norm 0 has no direction: its cosine
is 0 with all, and its gradient is that of the unnormalised output. A temperature that is learned
must stay positive: a loss on a CPU raises ValueError where it is not, and is NaN inside
`torch.func.vmap`, under a compiler and on an accelerator.
"""

from clcore._front import attach

_HOMES = {
    "modules": ("InfoNCE", "ContrastiveLoss"),
    "infonce_family": ("infonce", "CONVENTIONS", "Convention", "cross_entropy"),
    "pairs": (
        "Pair",
        "LogDomain",
        "infonce_pair",
        "mine_pair",
        "triplet_pair",
        "soft_triplet_pair",
        "tuplet_pair",
        "lifted_pair",
        "modified_triplet_pair",
        "linear_pair",
        "table1",
    ),
    "contrast": (
        "family_loss",
        "inter_distances",
        "intra_distances",
        "pairwise_importance",
        "row_mass",
        "contrastive_covariance",
        "energy",
    ),
    "minplayer": (
        "cost",
        "entropy_weights",
        "inverse_weights",
        "square_weights",
        "direct_weights",
        "variant_loss",
        "VARIANTS",
    ),
    "sources": (
        "source_infonce",
        "source_simclr",
        "source_mine",
        "source_mine_per_sample",
        "source_triplet",
        "source_soft_triplet",
        "source_tuplet",
        "source_lifted",
        "source_modified_triplet",
        "source_linear",
    ),
}
__all__, __getattr__, __dir__ = attach(__name__, _HOMES)
