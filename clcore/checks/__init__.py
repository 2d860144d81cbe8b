"""The checks: one small function a claim, in one folder a chapter."""
