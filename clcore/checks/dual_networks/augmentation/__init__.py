"""What augmentation keeps, for any net and for one neuron on rings (ddn Sec. 5)."""
