"""The covariance operator of dual deep networks (ddn Secs. 3 to 5)."""
