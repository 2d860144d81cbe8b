"""Checks of chapter 1: the min-max view of contrastive losses (acl Secs. 2, 3)."""
