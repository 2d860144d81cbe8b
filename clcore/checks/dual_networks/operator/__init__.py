"""The covariance operator of finite worlds, and what training does to it (ddn Sec. 4, App. B)."""
