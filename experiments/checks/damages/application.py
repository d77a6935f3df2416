"""Damage to tables, outputs and sessions of the command line."""

from .damage import Damage

DAMAGES = [
    Damage(
        "tables: width",
        "src/streamgp/app/tables/csv_lines.py",
        "if len(cells) != width:",
        "if False:",
        "bad_rows_are_counted",
    ),
    Damage(
        "tables: place",
        "src/streamgp/app/tables/text.py",
        "self.position.offset + len(line)",
        "self.position.offset + 1 + len(line)",
        "has_grown or mended",
    ),
    Damage(
        "tables: half a line",
        "src/streamgp/app/tables/lines.py",
        "and self.whole_lines:",
        "and False:",
        "does_not_end_yet",
    ),
    Damage(
        "outputs: cut",
        "src/streamgp/app/outputs.py",
        "file.truncate(size)",
        "pass",
        "is_cut_off",
    ),
    Damage(
        "session: transaction",
        "src/streamgp/app/session.py",
        "self.gp = before",
        "pass",
        "beyond_the_range or bad_row_is_mended",
    ),
    Damage(
        "all rows bad",
        "src/streamgp/app/session.py",
        "tally.rejected < tally.rows",
        "True",
        "all_bad_are_an_error",
    ),
]
