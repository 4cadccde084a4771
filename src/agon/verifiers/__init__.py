"""Programs that decide whether an answer is right. A verdict is never a bool: see `agon.records.Verdict`."""
