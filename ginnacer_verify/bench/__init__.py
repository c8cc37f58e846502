"""Running instance lists with our verifier and others, keeping the results safe, and reporting them."""
