"""Checks of chapters 2.1 and 2.2: deep linear nets and PCA (acl Sec. 4)."""
