"""Turning distributions into tokens."""
