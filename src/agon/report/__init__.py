"""Run folders -> one self-contained HTML file with tables, training curves and a draft/challenge reader."""

from agon.report.write import write_report

__all__ = ["write_report"]
