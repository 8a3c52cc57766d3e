"""`python -m highwater` is the command `highwater`."""

import sys

from ._command import main

sys.exit(main())
