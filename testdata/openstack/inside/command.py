"""Runs MODULE:FUNCTION as the command of a service would: command.py MODULE:FUNCTION NAME [ARGUMENT...]"""
import importlib
import sys

module, function = sys.argv[1].split(":")
sys.argv = sys.argv[2:]
sys.exit(getattr(importlib.import_module(module), function)())
