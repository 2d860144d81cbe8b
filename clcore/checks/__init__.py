"""Checks of the long tail of claims, one small function a claim."""
