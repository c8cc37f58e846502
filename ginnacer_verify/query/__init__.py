"""What a solver is asked, and what every solver must offer."""
