"""Code that works on what strangers send: it has a process of its own, without files, network or secrets."""

import csv
import io

TOOL_NAME = "csv_totals"
TOOL_DESCRIPTION = "Add up the columns of a CSV text that hold numbers."
TOOL_PARAMETERS = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "CSV with a line of headings."}},
    "required": ["text"],
    "additionalProperties": False,
}
TOOL_OUTPUT = {
    "type": "object",
    "properties": {
        "rows": {"type": "integer"},
        "totals": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "required": ["rows", "totals"],
}
TOOL_EFFECTS = "read"
TOOL_TAGS = ["tables"]


def run(text):
    """Totals by heading; a column with anything but numbers in it has none."""
    rows = list(csv.DictReader(io.StringIO(text)))
    totals = {}
    for heading in rows[0] if rows else ():
        try:
            totals[heading] = sum(float(row[heading]) for row in rows)
        except (TypeError, ValueError):
            continue
    return {"rows": len(rows), "totals": totals}
