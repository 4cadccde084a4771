"""The run folder: written whole or not at all, locked, versioned, read back without torch."""

from agon.runs.atomic import (
    MARKER,
    atomic_directory,
    atomic_file,
    atomic_write_bytes,
    atomic_write_text,
    output_errors,
    sha256_of,
)
from agon.runs.checkpoints import (
    Newest,
    Skipped,
    checkpoint_name,
    checkpoint_step,
    is_last,
    list_checkpoints,
    newest_checkpoint,
    prune_checkpoints,
    verify_checkpoint,
)
from agon.runs.evaluations import (
    evaluation_files,
    evaluation_matches_path,
    read_evaluation,
    read_evaluations,
    write_evaluation,
)
from agon.runs.folder import RunFolder, match_files, match_step
from agon.runs.lines import read_alarms, read_metrics, read_timings, truncate_metrics
from agon.runs.lock import RunLock
from agon.runs.manifest import (
    FORMAT_VERSION,
    changes_since,
    folder_kind,
    installed_versions,
    read_config,
    read_json,
    read_manifest,
)
from agon.runs.matches import match_from_json, read_matches, write_matches
from agon.runs.parent import child_runs, create_parent, default_run
from agon.runs.space import require_free_bytes

__all__ = [
    "FORMAT_VERSION",
    "MARKER",
    "Newest",
    "RunFolder",
    "RunLock",
    "Skipped",
    "atomic_directory",
    "atomic_file",
    "atomic_write_bytes",
    "atomic_write_text",
    "changes_since",
    "checkpoint_name",
    "checkpoint_step",
    "child_runs",
    "create_parent",
    "default_run",
    "evaluation_files",
    "evaluation_matches_path",
    "folder_kind",
    "installed_versions",
    "is_last",
    "list_checkpoints",
    "match_files",
    "match_from_json",
    "match_step",
    "newest_checkpoint",
    "output_errors",
    "prune_checkpoints",
    "read_alarms",
    "read_config",
    "read_evaluation",
    "read_evaluations",
    "read_json",
    "read_manifest",
    "read_matches",
    "read_metrics",
    "read_timings",
    "require_free_bytes",
    "sha256_of",
    "truncate_metrics",
    "verify_checkpoint",
    "write_evaluation",
    "write_matches",
]
