"""What follows the stream: calibration of intervals, outliers, the ledger of rows."""
