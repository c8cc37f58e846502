"""One file per solver; `ginnacer_verify.query.backend` finds them."""
