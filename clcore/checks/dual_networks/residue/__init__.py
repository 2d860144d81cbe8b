"""The contrastive losses, their pair weights and the residue that these leave: Theorem 4, and nets
on images (ddn Secs. 4, 7, App. B.4)."""
