"""arm64 processors."""
