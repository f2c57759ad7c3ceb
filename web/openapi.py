"""The OpenAPI description of the studio, from which `npm run api` makes the TypeScript types.

.venv/bin/python web/openapi.py
"""

from __future__ import annotations

import json
import sys

from attnlab.studio._app import api

if __name__ == "__main__":
    json.dump(api().openapi(), sys.stdout)
