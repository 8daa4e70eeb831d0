"""``python -m fedflat`` is the command line."""

from fedflat.cli import main

raise SystemExit(main())
