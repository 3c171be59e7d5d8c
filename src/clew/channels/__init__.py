"""Channels: one module for each way to people (`ports.Channel`).

A channel knows its platform. Sessions, keys, turns and the configuration file are nothing to it.
"""
