"""The instruments' version: one number for the package and for every generated single file."""

from __future__ import annotations

PROBE_VERSION = "0.1.0"
SCHEMA_VERSION = 1
