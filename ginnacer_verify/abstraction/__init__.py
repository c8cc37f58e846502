"""The abstraction of the paper, its partitions, and its relational form on a box."""
