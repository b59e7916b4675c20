"""Recurrent layers on NVIDIA GPUs: one launch for a whole sequence."""
