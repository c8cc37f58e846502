"""One file per solver; `ginnacer_verify.backend` finds them."""
