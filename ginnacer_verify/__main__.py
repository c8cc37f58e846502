"""`python -m ginnacer_verify` is `ginnacer`."""

import sys

from ginnacer_verify.cli import main

sys.exit(main())
