"""Pure matching: patterns, vocabularies and the tables between them; knows no policy."""
