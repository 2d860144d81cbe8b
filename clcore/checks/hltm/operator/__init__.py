"""The covariance operator on a latent tree: Theorem 6, depth, growth (ddn Sec. 6.1.2, App. C.5)."""
