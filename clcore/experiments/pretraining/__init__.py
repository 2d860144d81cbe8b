"""Contrastive pretraining of a ResNet-18 on images, and its evaluation: acl Sec. 6, ddn Sec. 7.

The papers' protocol is what `Settings` has by default: batch 128, Adam at rate 1e-2 (CIFAR-10;
1e-3 for STL-10) with momentum 0.9, no weight decay, ResNet-18 with the standard stem also at 32
pixels, projector 512-512-128, tau 0.5. Labels are used for evaluation only. Both views of a batch
go through the net together, so BatchNorm's statistics are of all 2n (not stated in the papers; the
released program takes each view's own).

Everything random is a function of the seed and the step: a run that was stopped and resumed is,
on the CPU, the same to the bit as one that was not.
"""

from clcore.experiments.pretraining.by_hand import command, parsed
from clcore.experiments.pretraining.checkpoint import checkpoint_name, curve, filters
from clcore.experiments.pretraining.many import faster, grid
from clcore.experiments.pretraining.single import OutOfMemory, run, together
from clcore.experiments.trainer import Settings
from clcore.sweep.checkpoint import Stopped

__all__ = [
    "OutOfMemory",
    "Settings",
    "Stopped",
    "checkpoint_name",
    "command",
    "curve",
    "faster",
    "filters",
    "grid",
    "parsed",
    "run",
    "together",
]
