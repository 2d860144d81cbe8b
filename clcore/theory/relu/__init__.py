"""Two-layer ReLU nets and the data they compose (acl Sec. 5)."""
