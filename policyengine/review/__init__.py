"""What reviewers ask of policies: what they do to a text."""
