"""Contrastive losses of two views, and what the papers derive from them.

Outputs for the first views of n samples are z, for the second views z2, both `[*b, n, d]`: leading
dimensions are batches, and all runs under `torch.func.vmap`. In a training loop use
`InfoNCE`, `ContrastiveLoss` and, with labels, `SupCon`: modules for one batch `[n, d]`. As
functions, for batches of batches too, they are `infonce`, `family_loss` and `supcon`, the first two
with other defaults: the module has `how="nt-xent"`, the function `how="acl"`; `ContrastiveLoss` is
the mean over samples, `family_loss` the sum; all take `reduction="none"`. `gather` joins the
outputs of several processes into one batch. InfoNCE comes in many normalisations, which
`CONVENTIONS` names. Sums are over samples, and distances are squared and halved, unless a
convention differs.

Losses of float16 and bfloat16 outputs, and losses under autocast, are computed in float32 and have
that type; gradients have the type of the outputs. An output of norm 0 has no direction: its cosine
is 0 with all, and its gradient is that of the unnormalised output. A temperature that is learned
must stay positive: a loss on a CPU raises ValueError where it is not, and is NaN inside
`torch.func.vmap`, under a compiler and on an accelerator.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
