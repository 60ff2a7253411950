"""Stands in for torch until gradloom.as_torch, which replaces this module, is imported."""

import gradloom.as_torch as _as_torch
