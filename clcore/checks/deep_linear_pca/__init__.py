"""Checks of chapter 2: deep linear nets and PCA (acl Sec. 4)."""
