"""Corpora described in YAML: read, filtered, scored and tokenised on many processes."""
