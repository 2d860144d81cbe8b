"""Images: where they come from, how they are read and augmented, what features are worth."""
