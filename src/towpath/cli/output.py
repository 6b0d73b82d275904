"""Listings as a table for people or as JSON for programs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from towpath.cli.plain_table import table

__all__ = ["Output", "OutputFlag", "table"]


class Output(StrEnum):
    """The forms of a listing."""

    TABLE = "table"
    JSON = "json"


OutputFlag = Annotated[Output, typer.Option("--output", help="Form of the answer.")]
