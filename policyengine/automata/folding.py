"""PLACEHOLDER contract; being written."""
