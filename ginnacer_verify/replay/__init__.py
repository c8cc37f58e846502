"""The one judge of counterexamples, the files that hold them, and the attack that looks for them."""
