"""Pairwise importance and the contrastive covariance that it weighs (nl Sec. 2, App. A.1)."""
