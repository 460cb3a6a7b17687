"""Agents: one file each, with its argv, its table of exit statuses, and its trajectory reader."""
