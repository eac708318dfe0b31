"""Run Django's commands for the shop: `python example_project/manage.py migrate`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Hand the command line to Django."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "example_project.shop_project.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
