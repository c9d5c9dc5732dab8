"""What runs while a model writes: sessions over compiled programs. No YAML, no pydantic, no torch."""
