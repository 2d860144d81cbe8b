"""Checks of chapter 3: two-layer ReLU nets and composition (acl Sec. 5)."""
