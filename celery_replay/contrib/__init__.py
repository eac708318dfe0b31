"""Adapters to what tasks work with, each to be imported by whoever has the library."""
