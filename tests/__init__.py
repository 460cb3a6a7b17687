"""Tests: sentences, tables and controls."""
